#include "span/object_states.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "os/fake_page_source.h"
#include "span/fake_address_space.h"
#include "span/span_source.h"

namespace strata {
namespace {

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

alignas(64) ObjectStates::State g_states[kRegionBytes / SizeClassMap::kGrain];

/// The index of the state of the object at this offset from the start of its span.
std::size_t slot_of(std::size_t offset, unsigned size_class) {
  const ObjectStates::Place place = ObjectStates::place(g_states, at(kRegionBytes), size_class);
  return static_cast<std::size_t>(&ObjectStates::at(place, at(kRegionBytes + offset)) - g_states);
}

TEST(ObjectStates, NoTwoObjectsOfASpanShareAState) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    std::size_t before = SIZE_MAX;
    for (std::size_t start = 0; start < span_pages_of(c) * kPageBytes; start += bytes) {
      const std::size_t slot = slot_of(start, c);
      ASSERT_TRUE(before == SIZE_MAX || slot > before) << "class " << c << ", offset " << start;
      ASSERT_LT(slot, span_pages_of(c) * ObjectStates::slots_of_page(c));
      before = slot;
    }
  }
}

TEST(ObjectStates, TheStateOfALiveObjectIsThatOfNoOtherPlaceInItsSlot) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t slot_bytes = kPageBytes / ObjectStates::slots_of_page(c);
    for (std::size_t slot = 0; slot < kPageBytes; slot += slot_bytes) {
      std::vector<bool> seen(256);
      seen[ObjectStates::kNever] = seen[ObjectStates::kFreed] = true;
      for (std::size_t place = slot; place < slot + slot_bytes; place += SizeClassMap::kGrain) {
        const std::uint8_t live = ObjectStates::live_at(at(kRegionBytes + place));
        ASSERT_FALSE(seen[live]) << "class " << c << ", offset " << place;
        seen[live] = true;
      }
    }
  }
}

TEST(ObjectStates, TakeAtMostASixteenthOfASpanASixtyFourthFrom64BytesOnAndAThirdPercentAtLast) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    const std::size_t share = bytes < 64 ? 16 : bytes < 256 ? 64 : 256;
    EXPECT_LE(ObjectStates::slots_of_page(c), kPageBytes / share) << "class " << c;
  }
}

TEST(ObjectStates, AreThereWhileASpanIsAndOnlyIfAskedFor) {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  Span* const before = space.spans.create(7);
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(space.map.states_of(before->start), ObjectStates::kNoPlace);
  space.spans.destroy(*before);

  space.spans.keep_states(true);
  for (const unsigned c : {1u, 7u, 40u, SizeClassMap::kCount - 1}) {
    Span* const span = space.spans.create(c);
    ASSERT_NE(span, nullptr);
    for (std::uint32_t i = 0; i < span->object_count; ++i) {
      const char* const object = span->start + std::size_t{i} * span->object_bytes;
      const ObjectStates::Place place = space.map.states_of(object);
      ASSERT_NE(place, ObjectStates::kNoPlace);
      ObjectStates::State& state = ObjectStates::at(place, object);
      ASSERT_EQ(state.load(), ObjectStates::kNever) << "class " << c << ", object " << i;
      state.store(ObjectStates::live_at(object));
    }
    const char* const start = span->start;
    space.spans.destroy(*span);
    EXPECT_EQ(space.map.states_of(start), ObjectStates::kNoPlace);
  }
}

}  // namespace
}  // namespace strata
