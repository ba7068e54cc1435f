#include "guard/empty_blocks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "os/fake_page_source.h"

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
  void* const freed = *seen.begin();
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

TEST_F(EmptyBlocksTest, AnyAccessIsAFault) {
  auto* const p = static_cast<volatile char*>(blocks.allocate());
  EXPECT_DEATH(static_cast<void>(*p), "");
  EXPECT_DEATH(*p = 1, "");
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
