#include "os/fake_page_source.h"

#include <gtest/gtest-spi.h>

#include <cstring>

namespace strata::os {
namespace {

std::size_t pages(std::size_t count) { return count * page_bytes(); }

TEST(FakePageSource, CountsCallsAndBytes) {
  FakePageSource source;
  void* p = source.map(pages(4));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(source.calls(FakePageSource::kMap), 1u);
  EXPECT_EQ(source.mapped_bytes(), pages(4));
  EXPECT_TRUE(source.is_mapped(p, pages(4)));
  EXPECT_FALSE(source.is_mapped(p, pages(5)));

  EXPECT_TRUE(source.decommit(p, pages(2)));
  EXPECT_EQ(source.decommitted_bytes(), pages(2));

  source.unmap(p, pages(4));
  EXPECT_EQ(source.mapped_bytes(), 0u);
  EXPECT_EQ(source.peak_mapped_bytes(), pages(4));
  EXPECT_FALSE(source.is_mapped(p, page_bytes()));
}

TEST(FakePageSource, RefusesExactlyTheNthFallibleCall) {
  FakePageSource source;
  source.refuse_call(3);
  void* a = source.map(pages(1));
  EXPECT_NE(a, nullptr);
  EXPECT_TRUE(source.decommit(a, pages(1)));
  EXPECT_EQ(source.map_aligned(pages(1), pages(2)), nullptr);
  EXPECT_EQ(source.refused_calls(), 1u);
  EXPECT_NE(source.map(pages(1)), nullptr);
  EXPECT_EQ(source.refused_calls(), 1u);
  EXPECT_EQ(source.fallible_calls(), 4u);
}

TEST(FakePageSource, RefusesEveryCallFromTheNthOn) {
  FakePageSource source;
  source.refuse_from_call(2);
  EXPECT_NE(source.map(pages(1)), nullptr);
  EXPECT_EQ(source.map(pages(1)), nullptr);
  EXPECT_EQ(source.map(pages(1)), nullptr);
  source.refuse_nothing();
  EXPECT_NE(source.map(pages(1)), nullptr);
}

TEST(FakePageSource, RefusesWhatWouldPassTheLimit) {
  FakePageSource source;
  source.limit_mapped_bytes(pages(3));
  void* a = source.map(pages(2));
  EXPECT_NE(a, nullptr);
  EXPECT_EQ(source.map(pages(2)), nullptr);
  EXPECT_EQ(source.remap(a, pages(2), pages(4)), nullptr);
  EXPECT_NE(source.map(pages(1)), nullptr);
  EXPECT_EQ(source.refused_calls(), 2u);
}

TEST(FakePageSource, FollowsAMappingThatMoves) {
  FakePageSource source;
  void* a = source.map(pages(2));
  std::memset(a, 7, pages(2));
  void* b = source.remap(a, pages(2), pages(512));
  ASSERT_NE(b, nullptr);
  EXPECT_TRUE(source.is_mapped(b, pages(512)));
  EXPECT_EQ(source.mapped_bytes(), pages(512));
}

TEST(FakePageSource, FollowsAHoleInTheMiddle) {
  FakePageSource source;
  char* a = static_cast<char*>(source.map(pages(5)));
  source.unmap(a + pages(2), pages(1));
  EXPECT_TRUE(source.is_mapped(a, pages(2)));
  EXPECT_FALSE(source.is_mapped(a + pages(1), pages(2)));
  EXPECT_FALSE(source.is_mapped(a + pages(2), pages(1)));
  EXPECT_TRUE(source.is_mapped(a + pages(3), pages(2)));
  EXPECT_EQ(source.mapped_bytes(), pages(4));
  ASSERT_EQ(source.map_at(a + pages(2), pages(1)), MapAt::kMapped);
  EXPECT_TRUE(source.is_mapped(a, pages(5)));
}

// The macro's body cannot refer to local variables, hence the statics.
TEST(FakePageSource, FailsTheTestOnARangeItNeverMapped) {
  static FakePageSource source;
  static char* a;
  a = static_cast<char*>(source.map(pages(1)));
  EXPECT_NONFATAL_FAILURE(source.unmap(a, pages(2)), "not whole pages that this source has mapped");
  EXPECT_NONFATAL_FAILURE(source.decommit(a + 64, page_bytes()), "not whole pages");
  source.unmap(a, pages(1));
  EXPECT_NONFATAL_FAILURE(source.decommit(a, pages(1)), "not whole pages");
  EXPECT_NONFATAL_FAILURE(source.map(page_bytes() + 1), "are not whole pages");
}

}  // namespace
}  // namespace strata::os
