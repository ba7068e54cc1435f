// The rule on which everything here rests: nobody writes to freed memory until it is handed out
// again.

#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"

namespace {

class FreedObject : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr unsigned char kMark = 0xa7;

  static std::vector<unsigned char*> make_marked(std::size_t count) {
    std::vector<unsigned char*> blocks(count);
    for (auto& p : blocks) {
      p = static_cast<unsigned char*>(malloc(GetParam()));
      std::memset(p, kMark, GetParam());
    }
    return blocks;
  }

  static void expect_untouched(const std::vector<unsigned char*>& blocks) {
    for (const unsigned char* p : blocks) {
      p = opaque(p);
      for (std::size_t i = 0; i < GetParam(); ++i) {
        ASSERT_EQ(p[i], kMark) << "byte " << i << " of a freed object of " << GetParam();
      }
    }
  }
};

TEST_P(FreedObject, KeepsItsBytesInTheThreadsCache) {
  const auto blocks = make_marked(3);
  for (auto* p : blocks) free(p);
  expect_untouched(blocks);
}

// Enough objects to pass through batches into spans, and spans into the page heap.
TEST_P(FreedObject, KeepsItsBytesWhereverItGoes) {
  const std::size_t count = std::max<std::size_t>(40, std::size_t{2'000'000} / GetParam());
  const auto blocks = make_marked(count);
  for (auto* p : blocks) free(p);
  expect_untouched(blocks);
}

TEST_P(FreedObject, KeepsItsBytesWhenAnotherThreadFreesItAndEnds) {
  const auto blocks = make_marked(20);
  std::thread([&] {
    for (auto* p : blocks) free(p);
  }).join();
  expect_untouched(blocks);
}

// Up to the largest small size. Larger blocks go back to the kernel at any time.
INSTANTIATE_TEST_SUITE_P(Sizes, FreedObject,
                         testing::Values(8, 16, 48, 100, 256, 1000, 1024, 4000, 20'000, 131'072));

TEST(FreedBlock, KeepsItsBytesWhenLargeOrHuge) {
  for (const std::size_t bytes :
       {std::size_t{200'000}, std::size_t{1} << 20, std::size_t{3} << 20}) {
    auto* p = static_cast<unsigned char*>(malloc(bytes));
    std::memset(p, 0xa7, bytes);
    free(p);
    p = opaque(p);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], 0xa7) << i;
  }
}

}  // namespace
