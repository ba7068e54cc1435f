#include "span/hole_batch.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

/// Remembers how many ranges each call returned.
class CountingPages final : public os::FakePageSource {
 public:
  void decommit_each(os::PageRange* ranges, std::size_t count) noexcept override {
    calls_of.push_back(count);
    FakePageSource::decommit_each(ranges, count);
  }
  std::vector<std::size_t> calls_of;
};

/// Spans of 32 objects of 2 KiB; a test says which objects are free.
struct HoleBatchTest : ::testing::Test {
  CountingPages pages;
  FakeAddressSpace space{pages};
  const std::size_t os_page = os::page_bytes();

  void SetUp() override {
    if (os_page > 4096) GTEST_SKIP() << "a span has few OS pages";
  }
  static void set_free(Span& span, std::uint64_t objects) {
    span.free_bits[0] = objects;
    span.free_count = static_cast<std::uint32_t>(std::popcount(objects));
  }
  static Span& make_span(FakeAddressSpace& in, std::uint64_t free_objects) {
    Span* const span = in.spans.create(SizeClassMap::class_of(2048));
    EXPECT_NE(span, nullptr);
    set_free(*span, free_objects);
    return *span;
  }
  static std::size_t give_back(HoleBatch& holes) {
    if (!holes.is_empty()) holes.decommit();
    const std::size_t returned = holes.settle();
    holes.clear();
    return returned;
  }
  void destroy(const std::vector<Span*>& spans) {
    for (Span* span : spans) {
      set_free(*span, ~std::uint64_t{0} >> 32);
      space.spans.destroy(*span);
    }
    EXPECT_EQ(space.spans.hole_bytes(), 0u);
    space.heap.check_invariants();
  }
};

// OS pages are free and used by turns: as many holes as a span can have.
constexpr std::uint64_t kEveryOther = 0x3333'3333;

TEST_F(HoleBatchTest, HolesOfSeveralSpansGoBackByOneCall) {
  HoleBatch holes(space.spans);
  Span& first = make_span(space, 0b0110'0110'1100);  // one OS page, and halves of others
  Span& none = make_span(space, 0b0110);
  Span& last = make_span(space, 0b1100'0000'1111);
  EXPECT_EQ(holes.add(first), os_page);
  EXPECT_EQ(holes.add(none), 0u);
  EXPECT_EQ(holes.add(last), 3 * os_page);
  EXPECT_EQ(pages.calls_of, std::vector<std::size_t>{}) << "nothing has gone back yet";
  EXPECT_EQ(give_back(holes), 4 * os_page);
  EXPECT_EQ(pages.calls_of, std::vector<std::size_t>{3});
  EXPECT_EQ(first.hole_bytes, os_page);
  EXPECT_EQ(none.hole_bytes, 0u);
  EXPECT_EQ(last.hole_bytes, 3 * os_page);
  EXPECT_EQ(last.hole_bytes_for_growth, 0u);
  EXPECT_EQ(space.spans.hole_bytes(), 4 * os_page);
  EXPECT_EQ(give_back(holes), 0u);
  destroy({&first, &none, &last});
}

TEST_F(HoleBatchTest, OnlyWhatIsNewCounts) {
  HoleBatch holes(space.spans, HoleBatch::Why::kGrowth);
  Span& span = make_span(space, 0b11);
  EXPECT_EQ(holes.add(span), os_page);
  EXPECT_EQ(give_back(holes), os_page);
  set_free(span, 0b1111'0011);
  EXPECT_EQ(holes.add(span), 2 * os_page);
  EXPECT_EQ(give_back(holes), 2 * os_page);
  EXPECT_EQ(span.hole_bytes, 3 * os_page);
  EXPECT_EQ(span.hole_bytes_for_growth, 3 * os_page);
  EXPECT_EQ(space.spans.decommitted_bytes(), 3 * os_page);
  destroy({&span});
}

TEST_F(HoleBatchTest, HasRoomForTheHolesOfSeveralSpans) {
  HoleBatch holes(space.spans);
  std::vector<Span*> spans;
  while (!holes.is_full()) {
    spans.push_back(&make_span(space, kEveryOther));
    EXPECT_EQ(holes.add(*spans.back()), 8 * os_page);
  }
  EXPECT_GE(spans.size(), 4u);
  EXPECT_EQ(give_back(holes), spans.size() * 8 * os_page);
  EXPECT_EQ(pages.calls_of.size(), 1u);
  for (const Span* span : spans) EXPECT_EQ(span->hole_bytes, 8 * os_page);
  destroy(spans);
}

TEST_F(HoleBatchTest, IsFullWhenItHasSoughtInSpansWithoutAHole) {
  HoleBatch holes(space.spans);
  Span& span = make_span(space, 0b0110);
  for (std::size_t i = 0; i != HoleBatch::kMostSpans; ++i) {
    EXPECT_FALSE(holes.is_full());
    EXPECT_EQ(holes.add(span), 0u);
  }
  EXPECT_TRUE(holes.is_full());
  EXPECT_TRUE(holes.is_empty());
  EXPECT_EQ(give_back(holes), 0u);
  EXPECT_FALSE(holes.is_full());
  destroy({&span});
}

TEST_F(HoleBatchTest, WhatTheKernelRefusesStaysHeld) {
  HoleBatch holes(space.spans);
  std::vector<Span*> spans;
  for (int i = 0; i < 3; ++i) spans.push_back(&make_span(space, kEveryOther));
  for (Span* span : spans) holes.add(*span);
  const std::size_t held = space.heap.limit().held_bytes();
  pages.refuse_call(11);
  EXPECT_EQ(give_back(holes), 23 * os_page);
  EXPECT_EQ(spans[0]->hole_bytes, 8 * os_page);
  EXPECT_EQ(spans[1]->hole_bytes, 7 * os_page);
  EXPECT_EQ(spans[2]->hole_bytes, 8 * os_page);
  EXPECT_EQ(space.heap.limit().held_bytes(), held - 23 * os_page);
  destroy(spans);
}

TEST_F(HoleBatchTest, TheTailBehindTheLastObjectGoesBackWithIt) {
  HoleBatch holes(space.spans);
  int with_tails = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    Span* const span = space.spans.create(c);
    ASSERT_NE(span, nullptr);
    const std::size_t end = span->object_count * std::size_t{span->object_bytes};
    if (span->object_count <= 64 && end < span->bytes() && end % os_page != 0) {
      const std::uint64_t all = ~std::uint64_t{0} >> (64 - span->object_count);
      set_free(*span, all & ~std::uint64_t{1});
      const std::size_t first_free = (span->object_bytes + os_page - 1) / os_page * os_page;
      EXPECT_EQ(holes.add(*span), span->bytes() - first_free) << span->object_bytes;
      give_back(holes);
      set_free(*span, all);
      ++with_tails;
    }
    space.spans.destroy(*span);
  }
  EXPECT_NE(with_tails, 0);
}

TEST_F(HoleBatchTest, WhereASpanEndsItsHolesAreHeldAgainOrAllOfItGoesBack) {
  HoleBatch holes(space.spans);
  Span& used = make_span(space, 0b1111);
  const std::size_t bytes = used.bytes();
  const std::size_t held = space.limit.held_bytes();
  holes.add(used);
  give_back(holes);
  space.heap.take_growth();
  destroy({&used});
  EXPECT_EQ(space.limit.held_bytes(), held) << "its pages are idle";
  EXPECT_EQ(space.heap.growth_bytes(), 2 * os_page);
  Span& idle = make_span(space, 0b1111);
  holes.add(idle);
  give_back(holes);
  set_free(idle, ~std::uint64_t{0} >> 32);
  space.spans.destroy(idle, Was::kIdle);
  EXPECT_EQ(space.limit.held_bytes(), held - bytes);
}

TEST_F(HoleBatchTest, HolesSplitAHugePageWhereTogetherTheyAreWorthIt) {
  os::FakePageSource huge_pages;
  FakeAddressSpace huge(huge_pages, HugePages::kAlways);
  HoleBatch holes(huge.spans);
  const std::size_t small = huge_pages.calls(os::FakePageSource::kAdviseSmall);
  Span& span = make_span(huge, 0b0110'0110'1100);
  EXPECT_EQ(holes.add(span), 0u);
  EXPECT_EQ(give_back(holes), 0u);
  EXPECT_EQ(huge_pages.calls(os::FakePageSource::kAdviseSmall), small);
  set_free(span, 0b1100'0011'1100'0110'1100);
  EXPECT_EQ(holes.add(span), 4 * os_page);
  EXPECT_EQ(give_back(holes), 4 * os_page);
  EXPECT_EQ(huge_pages.calls(os::FakePageSource::kAdviseSmall), small + 1)
      << "huge pages would fill them again";
  EXPECT_EQ(span.hole_bytes, 4 * os_page);
  set_free(span, ~std::uint64_t{0} >> 32);
  huge.spans.destroy(span);
  EXPECT_EQ(huge.spans.hole_bytes(), 0u);
  huge.heap.check_invariants();
}

}  // namespace
}  // namespace strata
