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

TEST(ObjectStates, NoTwoObjectsOfAPageShareAState) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    std::size_t slot = 0;
    for (std::size_t start = 0; start < span_pages_of(c) * kPageBytes; start += bytes) {
      if (start % kPageBytes < bytes) slot = ObjectStates::slots_of_page(c);  // a page's first one
      ASSERT_NE(ObjectStates::slot_of(at(start), c), slot) << "class " << c << ", offset " << start;
      slot = ObjectStates::slot_of(at(start), c);
      ASSERT_LT(slot, ObjectStates::slots_of_page(c));
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

TEST(ObjectStates, TakeAtMostASixteenthOfASpanAndASixtyFourthFrom64BytesOn) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t most = SizeClassMap::bytes_of(c) < 64 ? kPageBytes / 16 : kPageBytes / 64;
    EXPECT_LE(ObjectStates::slots_of_page(c), most) << "class " << c;
  }
}

TEST(ObjectStates, AreThereWhileASpanIsAndOnlyIfAskedFor) {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  Span* const before = space.spans.create(7);
  ASSERT_NE(before, nullptr);
  EXPECT_EQ(space.map.states_of(before->start), nullptr);
  space.spans.destroy(*before);

  space.spans.keep_states();
  for (const unsigned c : {1u, 7u, 40u, SizeClassMap::kCount - 1}) {
    Span* const span = space.spans.create(c);
    ASSERT_NE(span, nullptr);
    for (std::uint32_t i = 0; i < span->object_count; ++i) {
      const char* const object = span->start + std::size_t{i} * span->object_bytes;
      ObjectStates::State* const states = space.map.states_of(object);
      ASSERT_NE(states, nullptr);
      ObjectStates::State& state = states[ObjectStates::slot_of(object, c)];
      ASSERT_EQ(state.load(), ObjectStates::kNever) << "class " << c << ", object " << i;
      state.store(ObjectStates::live_at(object));
    }
    const char* const start = span->start;
    space.spans.destroy(*span);
    EXPECT_EQ(space.map.states_of(start), nullptr);
  }
}

}  // namespace
}  // namespace strata
