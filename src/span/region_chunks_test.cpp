#include "span/region_chunks.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "os/page_source.h"

namespace strata {
namespace {

constexpr std::uintptr_t kFirst = std::uintptr_t{1} << 40;
constexpr std::uintptr_t kLimit = std::uintptr_t{1} << 44;
constexpr std::size_t kStep = RegionChunks::kMost * kRegionBytes;

/// Gives the answers that it is told to give, remembers the calls, and maps nothing.
struct ScriptedPages final : os::PageSource {
  struct Call {
    std::uintptr_t address;  // 0: anywhere
    std::size_t bytes;
    bool operator==(const Call&) const = default;
  };

  os::MapAt map_at(void* address, std::size_t bytes) noexcept override {
    calls.push_back({reinterpret_cast<std::uintptr_t>(address), bytes});
    if (reinterpret_cast<std::uintptr_t>(address) < in_use_until) return os::MapAt::kInUse;
    return bytes <= most_bytes ? os::MapAt::kMapped : os::MapAt::kNoMemory;
  }
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override {
    EXPECT_EQ(alignment, kRegionBytes);
    calls.push_back({0, bytes});
    return bytes <= most_bytes ? reinterpret_cast<void*>(anywhere) : nullptr;
  }
  bool unmap(void* address, std::size_t bytes) noexcept override {
    unmapped.push_back({reinterpret_cast<std::uintptr_t>(address), bytes});
    return true;
  }

  std::uintptr_t in_use_until = 0;
  std::uintptr_t anywhere = kLimit;
  std::size_t most_bytes = SIZE_MAX;
  std::vector<Call> calls;
  std::vector<Call> unmapped;
};

struct RegionChunksTest : ::testing::Test {
  ScriptedPages pages;
  RegionChunks chunks;

  void SetUp() override { chunks.begin_at(kFirst); }
  /// The address of the chunk; 0 if there is none.
  std::uintptr_t map(std::size_t wanted, std::size_t got) {
    pages.calls.clear();
    const RegionChunks::Chunk chunk = chunks.map(pages, wanted, kLimit);
    EXPECT_EQ(chunk.regions, got);
    return reinterpret_cast<std::uintptr_t>(chunk.start);
  }
};

TEST_F(RegionChunksTest, FollowEachOtherUpwardsWithAGap) {
  EXPECT_EQ(map(8, 8), kFirst);
  EXPECT_EQ(map(3, 3), kFirst + 9 * kRegionBytes);
  EXPECT_EQ(map(1, 1), kFirst + 13 * kRegionBytes);
}

/// Where addresses are scarce, all chunks are that short, and half of the page map would be gaps.
TEST_F(RegionChunksTest, LeaveNoGapBehindOneRegion) {
  EXPECT_EQ(map(1, 1), kFirst);
  EXPECT_EQ(map(1, 1), kFirst + kRegionBytes);
  EXPECT_EQ(map(2, 2), kFirst + 2 * kRegionBytes);
}

TEST_F(RegionChunksTest, StepOverWhatIsInUse) {
  pages.in_use_until = kFirst + 2 * kStep;
  EXPECT_EQ(map(8, 8), kFirst + 2 * kStep);
  pages.in_use_until = kFirst + (std::uintptr_t{400} << 30);
  EXPECT_GE(map(8, 8), pages.in_use_until);
  EXPECT_LT(pages.calls.size(), 64u);
}

TEST_F(RegionChunksTest, WhereAllPlacesAreInUseTheKernelChoosesFromThenOn) {
  pages.in_use_until = kLimit;
  pages.anywhere = kFirst / 2;
  EXPECT_EQ(map(8, 8), kFirst / 2);
  ASSERT_EQ(pages.calls.size(), 65u);
  EXPECT_EQ(pages.calls[7].address, kFirst + 7 * kStep);
  EXPECT_EQ(pages.calls[9].address, kFirst + 10 * kStep) << "longer steps";
  EXPECT_EQ(pages.calls[63].address, kFirst + (std::uintptr_t{478} << 30));
  EXPECT_EQ(map(4, 4), kFirst / 2);
  EXPECT_EQ(pages.calls, (std::vector<ScriptedPages::Call>{{0, 4 * kRegionBytes}}));
}

TEST_F(RegionChunksTest, WhatTheKernelChoosesBeyondTheLimitGoesBack) {
  pages.in_use_until = kLimit;
  pages.anywhere = kLimit - kRegionBytes;
  EXPECT_EQ(map(2, 1), pages.anywhere) << "one region still lies below the limit";
  EXPECT_EQ(pages.unmapped, (std::vector<ScriptedPages::Call>{{pages.anywhere, 2 * kRegionBytes}}));
  pages.anywhere = kLimit;
  EXPECT_EQ(map(2, 0), 0u);
}

TEST_F(RegionChunksTest, WithoutMemoryForAllOneRegionIsTried) {
  pages.most_bytes = kRegionBytes;
  EXPECT_EQ(map(8, 1), kFirst);
  EXPECT_EQ(map(8, 1), kFirst + kRegionBytes);
}

TEST_F(RegionChunksTest, AFailureIsCheapWhereThereWasNoMemoryBefore) {
  pages.most_bytes = 0;
  EXPECT_EQ(map(8, 0), 0u);
  EXPECT_EQ(pages.calls.size(), 4u) << "all and one region, at the place and anywhere";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(map(8, 0), 0u);
    EXPECT_EQ(pages.calls, (std::vector<ScriptedPages::Call>{{kFirst, kRegionBytes}}));
  }
}

TEST_F(RegionChunksTest, OneRegionThatIsAllThatIsWantedIsNotTriedTwice) {
  pages.most_bytes = 0;
  EXPECT_EQ(map(1, 0), 0u);
  EXPECT_EQ(pages.calls,
            (std::vector<ScriptedPages::Call>{{kFirst, kRegionBytes}, {0, kRegionBytes}}));
  EXPECT_EQ(map(1, 0), 0u);
  EXPECT_EQ(pages.calls.size(), 1u);
}

TEST_F(RegionChunksTest, AfterARefusalWhatIsInUseIsStillSteppedOver) {
  pages.most_bytes = 0;
  EXPECT_EQ(map(8, 0), 0u);
  pages.most_bytes = SIZE_MAX;
  pages.in_use_until = kFirst + kStep;
  EXPECT_EQ(map(8, 1), kFirst + kStep);
}

TEST_F(RegionChunksTest, AChunkThatWasTakenBackIsTriedAgainByOneRegion) {
  const RegionChunks::Chunk chunk = chunks.map(pages, 8, kLimit);
  chunks.take_back(chunk);
  EXPECT_EQ(map(8, 1), kFirst);
}

TEST_F(RegionChunksTest, TheKernelGoesOnChoosingAfterItsChunkWasTakenBack) {
  pages.in_use_until = kLimit;
  pages.anywhere = kFirst / 2;
  chunks.take_back(chunks.map(pages, 8, kLimit));
  EXPECT_EQ(map(8, 1), kFirst / 2);
  EXPECT_EQ(pages.calls, (std::vector<ScriptedPages::Call>{{0, kRegionBytes}}));
}

TEST_F(RegionChunksTest, NoPlaceBeyondTheLimitIsTried) {
  chunks.begin_at(kLimit - kStep - 2 * kRegionBytes);
  pages.in_use_until = kLimit;
  EXPECT_EQ(map(2, 0), 0u);
  EXPECT_EQ(pages.calls.size(), 6u) << "two places and anywhere, for two regions and for one";
}

TEST_F(RegionChunksTest, OnlyTheFirstPlacesAnswerKeepsFromAskingAnywhere) {
  pages.most_bytes = 0;
  EXPECT_EQ(map(8, 0), 0u);
  pages.in_use_until = kFirst + kStep;  // and the next one is refused
  EXPECT_EQ(map(8, 0), 0u);
  EXPECT_EQ(pages.calls.size(), 3u);
}

TEST_F(RegionChunksTest, AfterARefusalOneRegionIsTriedOnceAndThenAllThatIsWanted) {
  pages.most_bytes = 0;
  EXPECT_EQ(map(8, 0), 0u);
  pages.most_bytes = SIZE_MAX;
  EXPECT_EQ(map(8, 1), kFirst);
  EXPECT_EQ(map(8, 8), kFirst + kRegionBytes);
}

TEST_F(RegionChunksTest, ARefusalCanBeForgotten) {
  pages.most_bytes = 0;
  EXPECT_EQ(map(8, 0), 0u);
  pages.most_bytes = SIZE_MAX;
  chunks.forget_refusal();
  EXPECT_EQ(map(8, 8), kFirst);
}

}  // namespace
}  // namespace strata
