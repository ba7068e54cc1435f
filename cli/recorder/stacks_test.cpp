#include "recorder/stacks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <latch>
#include <thread>

#include "recorder/system.h"

namespace strata::recorder {
namespace {

class Tree : public ::testing::Test {
 protected:
  void SetUp() override {
    memory_ = static_cast<char*>(map_memory(StackTree::kBytes));
    ASSERT_NE(memory_, nullptr);
    tree_.use(memory_);
  }
  void TearDown() override { unmap_memory(memory_, StackTree::kBytes); }

  StackTree tree_;

 private:
  char* memory_ = nullptr;
};

TEST_F(Tree, AStackIsStoredOnce) {
  const std::uintptr_t frames[] = {0x1000, 0x2000};
  const std::uint32_t node = tree_.node_of(frames, 2);
  EXPECT_EQ(node, 2u);
  EXPECT_EQ(tree_.node_of(frames, 2), node);
  EXPECT_EQ(tree_.node_of(frames + 1, 1), tree_.node(node).parent);
  EXPECT_EQ(tree_.count(), 2u);
}

// The merger writes the stacks that are counted before the events that name them.
TEST_F(Tree, WhoFindsANodeFindsItCounted) {
  constexpr std::uintptr_t kStacks = 500'000;
  std::latch gate(2);
  std::uint32_t uncounted[2] = {};
  const auto add_all = [&](std::uint32_t& found_uncounted) {
    gate.arrive_and_wait();
    for (std::uintptr_t address = 1; address <= kStacks; ++address) {
      const std::uint32_t node = tree_.node_of(&address, 1);
      found_uncounted += node > tree_.count();
    }
  };
  {
    std::jthread other(add_all, std::ref(uncounted[1]));
    add_all(uncounted[0]);
  }
  EXPECT_EQ(uncounted[0] + uncounted[1], 0u);
  EXPECT_EQ(tree_.count(), kStacks);
}

}  // namespace
}  // namespace strata::recorder
