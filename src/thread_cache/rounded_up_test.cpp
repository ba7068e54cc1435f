// The first objects of a class may be of a larger class, as long as nobody knows whether the
// process will need more than a few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "thread_cache/fake_thread.h"

namespace strata {
namespace {

constexpr std::size_t kRounded = 8;  // as ThreadCache says

struct RoundedUpTest : ::testing::Test, FakeProcess {
  RoundedUpTest() { central->round_up_first_objects(); }

  std::size_t bytes_at(const void* object) { return space.map.span_of(object)->object_bytes; }
  /// The sizes of the next objects that malloc gets for `bytes`; all stay in use.
  std::vector<std::size_t> next(ThreadCache& cache, std::size_t bytes, std::size_t count) {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < count; ++i) {
      in_use.push_back(allocate_from(cache, SizeClassMap::class_of(bytes)));
      sizes.push_back(bytes_at(in_use.back()));
    }
    return sizes;
  }
  /// Frees them as free does: by the class of their pages.
  void free_all(ThreadCache& cache) {
    for (void* const object : in_use)
      deallocate_into(cache, static_cast<unsigned>(space.map.class_of(object)), object);
    in_use.clear();
  }

  std::vector<void*> in_use;
};

using Sizes = std::vector<std::size_t>;

TEST_F(RoundedUpTest, AClassHasSpansOfItsOwnOnceItHasNeededSome) {
  auto cache = make_cache();
  EXPECT_EQ(next(*cache, 72, kRounded), Sizes(kRounded, 128));
  EXPECT_EQ(next(*cache, 72, 2), Sizes(2, 80));
  free_all(*cache);
  EXPECT_EQ(next(*cache, 72, 20), Sizes(20, 80)) << "it went back to larger objects";
  free_all(*cache);
  cache->flush_all();
  central->release_all();
  EXPECT_EQ(used_pages(), 0u);
}

TEST_F(RoundedUpTest, AFewObjectsOfManyClassesLieOnFewPages) {
  auto cache = make_cache();
  std::set<std::uintptr_t> os_pages;
  std::size_t bytes = 0;
  for (unsigned c = 1; SizeClassMap::bytes_of(c) <= 512; ++c) {
    const std::size_t size = SizeClassMap::bytes_of(c);
    bytes += size;
    next(*cache, size, 1);
    EXPECT_LT(bytes_at(in_use.back()), 2 * size);
    os_pages.insert(reinterpret_cast<std::uintptr_t>(in_use.back()) >> 12);
  }
  EXPECT_LE(used_pages(), 6u) << "there are six powers of two from 16 to 512";
  EXPECT_LE(os_pages.size(), 10u) << bytes;
  free_all(*cache);
}

TEST_F(RoundedUpTest, AnObjectFreedMeanwhileIsAllocatedAgain) {
  auto cache = make_cache();
  next(*cache, 72, 1);
  void* const first = in_use.back();
  free_all(*cache);
  next(*cache, 72, 1);
  EXPECT_EQ(in_use.back(), first);
  free_all(*cache);
}

TEST_F(RoundedUpTest, AClassThatTheProcessUsesIsNeverRoundedUp) {
  auto user = make_cache();
  auto other = make_cache();
  next(*user, 72, kRounded + 1);
  EXPECT_EQ(next(*other, 72, 1), Sizes{80});
  free_all(*user);
}

TEST_F(RoundedUpTest, PowersOfTwoAndLargeObjectsHaveTheirOwnFromTheFirstOn) {
  auto cache = make_cache();
  for (const std::size_t bytes : {16, 32, 64, 128, 256, 512, 1024, 2048, 2304, 3072, 20480})
    EXPECT_EQ(next(*cache, bytes, 2), Sizes(2, bytes));
  free_all(*cache);
}

TEST_F(RoundedUpTest, EveryObjectIsAlignedAsItsClassIs) {
  auto cache = make_cache();
  for (unsigned c = 1; SizeClassMap::bytes_of(c) <= 2048; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    next(*cache, bytes, kRounded);
    for (void* const object : in_use)
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(object) % (bytes & -bytes), 0u) << bytes;
    free_all(*cache);
  }
}

TEST_F(RoundedUpTest, WhereClassesStayApartNoneIs) {
  FakeProcess process;
  const auto cache = process.make_cache();
  void* const object = allocate_from(*cache, SizeClassMap::class_of(72));
  EXPECT_EQ(process.space.map.span_of(object)->object_bytes, 80u);
  deallocate_into(*cache, SizeClassMap::class_of(72), object);
  cache->flush_all();
}

}  // namespace
}  // namespace strata
