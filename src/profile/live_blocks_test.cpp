#include "profile/live_blocks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "base/seeded_test.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

class LiveBlocksTest : public SeededTest {
 protected:
  os::FakePageSource pages;
  MetadataArena metadata{pages};
  LiveBlocks blocks{metadata};
};

void* pointer(std::uintptr_t page) { return reinterpret_cast<void*>((page + 1) << 12); }

TEST_F(LiveBlocksTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(blocks.remove(pointer(1)).address, 0u);
  ASSERT_TRUE(blocks.insert(pointer(1), 10, 3));
  EXPECT_EQ(blocks.remove(pointer(2)).address, 0u);
  const LiveBlocks::Entry entry = blocks.remove(pointer(1));
  EXPECT_EQ(entry.bytes, 10u);
  EXPECT_EQ(entry.site, 3u);
  EXPECT_EQ(blocks.remove(pointer(1)).address, 0u);
}

TEST_F(LiveBlocksTest, OutOfMemoryIsSaidAndChangesNothing) {
  pages.limit_mapped_bytes(0);
  EXPECT_FALSE(blocks.insert(pointer(1), 10, 3));
  blocks.check_invariants();
  pages.limit_mapped_bytes(SIZE_MAX);
  EXPECT_TRUE(blocks.insert(pointer(1), 10, 3));
}

TEST_F(LiveBlocksTest, AgreesWithAModelWhileItGrowsAndBlocksComeAndGo) {
  std::map<std::uintptr_t, std::size_t> model;
  for (int step = 0; step < 20'000; ++step) {
    const std::uintptr_t page = below(step < 10'000 ? 600 : 4000);
    const auto known = model.find(page);
    if (known == model.end()) {
      const std::size_t bytes = below(1 << 20);
      ASSERT_TRUE(blocks.insert(pointer(page), bytes, 1));
      model[page] = bytes;
    } else {
      ASSERT_EQ(blocks.remove(pointer(page)).bytes, known->second);
      model.erase(known);
    }
    ASSERT_EQ(blocks.count(), model.size());
    if (step % 64 == 0) blocks.check_invariants();
  }
  for (const auto& [page, bytes] : model) ASSERT_EQ(blocks.remove(pointer(page)).bytes, bytes);
  blocks.check_invariants();
}

}  // namespace
}  // namespace strata
