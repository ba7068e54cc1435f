#include "guard/empty_blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/run_together_test.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"
#include "os/faults.h"

namespace strata {
namespace {

struct EmptyBlocksTest : ::testing::Test {
  os::FakePageSource pages;
  MetadataArena metadata{pages};
  EmptyBlocks blocks{pages, metadata};
};

TEST_F(EmptyBlocksTest, EachHasAnAlignedAddressOfItsOwnUntilNoneIsLeft) {
  std::set<void*> seen;
  for (std::size_t i = 0; i < EmptyBlocks::kBlocks; ++i) {
    void* const p = blocks.allocate();
    ASSERT_TRUE(blocks.owns(p));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % EmptyBlocks::kBlockBytes, 0u);
    ASSERT_TRUE(seen.insert(p).second);
  }
  EXPECT_EQ(blocks.allocate(), nullptr);
  void* const freed =
      *std::next(seen.begin(), EmptyBlocks::kMostPassed);  // the next that it looks at
  blocks.deallocate(freed, {});
  EXPECT_EQ(blocks.allocate(), freed);
}

TEST_F(EmptyBlocksTest, AFreedAddressIsGivenAgainAfterAllOthers) {
  void* const first = blocks.allocate();
  blocks.deallocate(first, {});
  for (std::size_t i = 1; i < EmptyBlocks::kBlocks; ++i) {
    void* const p = blocks.allocate();
    ASSERT_NE(p, first);
    blocks.deallocate(p, {});
  }
  EXPECT_EQ(blocks.allocate(), first);
}

TEST_F(EmptyBlocksTest, AnotherIsThereAfterTheFirst) {
  EXPECT_EQ(blocks.allocate_another(), nullptr);
  void* const first = blocks.allocate();
  void* const second = blocks.allocate_another();
  EXPECT_TRUE(blocks.owns(second));
  EXPECT_NE(second, first);
}

TEST_F(EmptyBlocksTest, NoTwoThreadsHaveOne) {
  std::vector<std::atomic<int>> owners(EmptyBlocks::kBlocks);
  const auto* const start = static_cast<const char*>(blocks.allocate());
  run_together(4, [&](int) {
    for (int i = 0; i < 40'000; ++i) {
      auto* const p = static_cast<char*>(blocks.allocate());
      if (p == nullptr) continue;
      auto& owner = owners[static_cast<std::size_t>(p - start) / EmptyBlocks::kBlockBytes];
      EXPECT_EQ(owner.fetch_add(1), 0);
      owner.fetch_sub(1);
      blocks.deallocate(p, {});
    }
  });
}

TEST_F(EmptyBlocksTest, AnyAccessIsAFault) {
  auto* const p = static_cast<volatile char*>(blocks.allocate());
  EXPECT_DEATH(static_cast<void>(*p), "");
  EXPECT_DEATH(*p = 1, "");
}

TEST_F(EmptyBlocksTest, AnAccessIsReportedWithTheBlockItIsTo) {
  static EmptyBlocks* explaining;
  explaining = &blocks;
  const auto report = [] {
    os::install_fault_handler([](const os::Fault& fault) { return explaining->explain(fault); });
  };
  auto* const p = static_cast<volatile char*>(blocks.allocate());
  EXPECT_DEATH(
      {
        report();
        p[0] = 1;
      },
      std::string("overflow of 0x[0-9a-f]+: the program ") + os::kWrote +
          " at offset 0 of this object of 0 bytes\nstrata: accessed by thread");
  EXPECT_DEATH(
      {
        report();
        static_cast<void>(p[15]);
      },
      "overflow of 0x.* at offset 15 of this object");
  EXPECT_DEATH(
      {
        report();
        p[16] = 1;
      },
      "wild access to 0x[0-9a-f]+: no object was ever there");
  blocks.deallocate(const_cast<char*>(p), {});
  EXPECT_DEATH(
      {
        report();
        p[1] = 1;
      },
      std::string("use after free of 0x.*: the program ") + os::kWrote + " at offset 1 of this");
  int elsewhere = 0;
  EXPECT_FALSE(blocks.explain({&elsewhere, os::Fault::Access::kWrite, 0}));
}

TEST_F(EmptyBlocksTest, LooksForAFreeOneAmongAFewOnly) {
  std::vector<void*> all(EmptyBlocks::kBlocks);
  for (void*& p : all) p = blocks.allocate();
  void* const far = all[2 * EmptyBlocks::kMostPassed + 1];
  blocks.deallocate(far, {});
  EXPECT_EQ(blocks.allocate(), nullptr);
  EXPECT_EQ(blocks.allocate(), nullptr);
  EXPECT_EQ(blocks.allocate(), far);
}

TEST_F(EmptyBlocksTest, MisuseIsFatal) {
  auto* const p = static_cast<char*>(blocks.allocate());
  EXPECT_DEATH(blocks.deallocate(p + 16, {}), "invalid free of .*: it was never allocated");
  EXPECT_DEATH(blocks.deallocate(p + 8, {}), "invalid free of .*: it is misaligned");
  EXPECT_DEATH(blocks.deallocate(p, {FreeCall::By::kDelete, 1}),
               "mismatched .* of .*: it was allocated with 0 bytes and freed with 1");
  blocks.expect_live(p, "realloc");
  blocks.deallocate(p, {FreeCall::By::kDelete, 0});
  EXPECT_DEATH(blocks.deallocate(p, {}), "double free of .*: the block of 0 bytes is free already");
  EXPECT_DEATH(blocks.expect_live(p, "realloc"), "invalid realloc of .*: the block of 0 bytes is");
}

TEST_F(EmptyBlocksTest, WithoutMemoryThereAreNone) {
  pages.refuse_from_call(1);
  EXPECT_EQ(blocks.allocate(), nullptr);
  EXPECT_FALSE(blocks.owns(nullptr));
  pages.refuse_nothing();
  pages.refuse_call(2);  // bookkeeping comes, addresses do not
  EXPECT_EQ(blocks.allocate(), nullptr);
  EXPECT_NE(blocks.allocate(), nullptr);
}

}  // namespace
}  // namespace strata
