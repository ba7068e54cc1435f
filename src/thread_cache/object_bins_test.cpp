#include "thread_cache/object_bins.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "thread_cache/fake_thread.h"

namespace strata {
namespace {

TEST(ObjectBins, EmptyBinsHoldNothingAndTakeNothing) {
  ObjectBins bins;
  int object = 0;
  for (unsigned c = 0; c < SizeClassMap::kCount; ++c) {
    EXPECT_EQ(bins.pop(c), nullptr);
    EXPECT_FALSE(bins.push(c, &object));
    EXPECT_FALSE(bins.push(c, nullptr));
    EXPECT_EQ(bins.pop(c), nullptr);
    EXPECT_FALSE(bins.is_latest(c, &object));
  }
}

struct FilledBins : ::testing::Test, FakeProcess {
  ThreadCache cache{*central, budget, space.metadata};
  void TearDown() override { cache.flush_all(); }
};

TEST_F(FilledBins, TheLatestObjectIsPoppedFirst) {
  for (unsigned c : {3u, SizeClassMap::class_of(40 * 1024)}) {
    void* a = allocate_from(cache, c);
    void* b = allocate_from(cache, c);
    EXPECT_TRUE(cache.push(c, a));
    EXPECT_TRUE(cache.push(c, b));
    EXPECT_EQ(cache.pop(c), b);
    EXPECT_EQ(cache.pop(c), a);
    deallocate_into(cache, c, a);
    deallocate_into(cache, c, b);
  }
}

TEST_F(FilledBins, RefusesTheLatestObjectASecondTime) {
  void* a = allocate_from(cache, 3);
  void* b = allocate_from(cache, 3);
  EXPECT_TRUE(cache.push(3, a));
  EXPECT_TRUE(cache.is_latest(3, a));
  EXPECT_FALSE(cache.push(3, a));
  EXPECT_TRUE(cache.push(3, b));
  EXPECT_FALSE(cache.is_latest(3, a));
}

TEST_F(FilledBins, ClassesDoNotMix) {
  void* a = allocate_from(cache, 3);
  void* b = allocate_from(cache, 4);
  EXPECT_TRUE(cache.push(3, a));
  EXPECT_TRUE(cache.push(4, b));
  EXPECT_EQ(cache.pop(3), a);
  EXPECT_EQ(cache.pop(4), b);
  deallocate_into(cache, 3, a);
  deallocate_into(cache, 4, b);
}

TEST_F(FilledBins, ClassZeroTakesNothing) {
  int object = 0;
  EXPECT_FALSE(cache.push(0, &object));
  EXPECT_FALSE(cache.push(0, nullptr));
}

}  // namespace
}  // namespace strata
