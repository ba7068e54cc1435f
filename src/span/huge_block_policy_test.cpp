#include "span/huge_block_policy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "os/page_source.h"

namespace strata {
namespace {

/// A block of the kernel's, with small pages, so that nothing is touched but what a test touches.
class HugeBlockPolicyTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  static constexpr std::size_t kBlock = 32 * kMiB;
  static constexpr std::uint64_t kMs = 1'000'000;

  HugeBlockPolicyTest() : block(static_cast<char*>(pages.map(kBlock))) {
    pages.advise_small(block, kBlock);
  }
  ~HugeBlockPolicyTest() override { pages.unmap(block, kBlock); }

  void SetUp() override {
    if (os::is_mostly_touched(block, kBlock)) GTEST_SKIP() << "nobody knows what is touched here";
  }
  void touch(std::size_t from, std::size_t bytes) { std::memset(block + from, 1, bytes); }
  void look(std::uint64_t age_ns) { policy.note_use(pages, block, kBlock, age_ns); }
  bool asks() const { return policy.is_worth_it(kBlock); }

  os::KernelPages pages;
  char* const block;
  HugeBlockPolicy policy;
};

TEST_F(HugeBlockPolicyTest, AsksForLargeBlocksUntilItKnowsBetter) {
  EXPECT_TRUE(policy.is_worth_it(16 * kMiB));
  EXPECT_FALSE(policy.is_worth_it(16 * kMiB - 1));
}

TEST_F(HugeBlockPolicyTest, AFreedBlockOfWhichOnlyTheStartWasTouchedSpeaksAgainstThem) {
  touch(0, kMiB);
  policy.note_end(pages, block);
  EXPECT_FALSE(asks());
}

TEST_F(HugeBlockPolicyTest, AFreedBlockThatWasFilledSpeaksForThem) {
  policy.note_end(pages, block);
  EXPECT_FALSE(asks());
  touch(0, 7 * kMiB);
  policy.note_end(pages, block);
  EXPECT_TRUE(asks());
}

TEST_F(HugeBlockPolicyTest, ABlockThatHasJustBegunSaysNothing) {
  touch(kBlock / 2, 1);
  look(kMs);
  EXPECT_TRUE(asks());
}

TEST_F(HugeBlockPolicyTest, ABlockThatMayStillBeFilledSaysNothing) {
  touch(0, 1);
  look(3 * kMs);
  EXPECT_TRUE(asks());
  touch(0, 2 * kMiB);
  look(3 * kMs);
  EXPECT_TRUE(asks());
}

TEST_F(HugeBlockPolicyTest, ABlockWithAGapAtItsStartSpeaksAgainstThem) {
  touch(0, 1);
  touch(2 * kMiB, 1);
  look(3 * kMs);
  EXPECT_FALSE(asks());
}

TEST_F(HugeBlockPolicyTest, ABlockThatIsNotFilledForLongSpeaksAgainstThem) {
  touch(0, 2 * kMiB);
  look(30 * kMs);
  EXPECT_FALSE(asks());
}

TEST_F(HugeBlockPolicyTest, ABlockWhoseBeginningIsFullSpeaksForThem) {
  look(30 * kMs);
  EXPECT_FALSE(asks());
  touch(0, 7 * kMiB);
  look(3 * kMs);
  EXPECT_TRUE(asks());
}

TEST_F(HugeBlockPolicyTest, AsksAlwaysOrNeverIfToldSo) {
  policy.configure(HugePages::kAlways);
  EXPECT_TRUE(asks());
  EXPECT_FALSE(policy.depends_on(kBlock)) << "nobody needs to look";
  for (const HugePages never : {HugePages::kNever, HugePages::kSystem}) {
    policy.configure(never);
    EXPECT_FALSE(asks());
    EXPECT_FALSE(policy.depends_on(kBlock));
  }
}

}  // namespace
}  // namespace strata
