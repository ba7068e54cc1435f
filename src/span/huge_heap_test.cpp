#include "span/huge_heap.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

using os::FakePageSource;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kStride = 16 * 1024;  // contents are written and read once per so many bytes

std::uint64_t read_word(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

/// Writes words that depend on their offset and on `tag`, so that the contents may move.
void write_content(void* block, std::size_t bytes, std::uint64_t tag) {
  char* const start = static_cast<char*>(block);
  for (std::size_t i = 0; i + sizeof tag <= bytes; i += kStride) {
    const std::uint64_t word = tag + i;
    std::memcpy(start + i, &word, sizeof word);
  }
  std::memcpy(start + bytes - sizeof tag, &tag, sizeof tag);
}

bool has_content(const void* block, std::size_t bytes, std::uint64_t tag) {
  const char* const start = static_cast<const char*>(block);
  for (std::size_t i = 0; i + sizeof tag <= bytes; i += kStride) {
    // The last word may overlap one of the others.
    if (read_word(start + i) != tag + i && i + 2 * sizeof tag <= bytes) return false;
  }
  return read_word(start + bytes - sizeof tag) == tag;
}

bool has_prefix(const void* block, std::size_t bytes, std::uint64_t tag) {
  const char* const start = static_cast<const char*>(block);
  for (std::size_t i = 0; i + 2 * kStride <= bytes; i += kStride) {
    if (read_word(start + i) != tag + i) return false;
  }
  return true;
}

bool reads_zero(const void* block, std::size_t bytes) {
  const char* const start = static_cast<const char*>(block);
  for (std::size_t i = 0; i < bytes; i += kStride) {
    if (read_word(start + i) != 0) return false;
  }
  return read_word(start + bytes - 8) == 0;
}

/// A heap of huge blocks over the test's page source.
struct Fixture {
  FakePageSource pages;
  FakeAddressSpace space{pages};
  HugeHeap heap{space.heap, space.metadata, pages};

  std::size_t bytes_of_blocks() const {
    return pages.mapped_bytes() - space.metadata.mapped_bytes();
  }
};

struct HugeHeapTest : ::testing::Test, Fixture {
  void* allocate(std::size_t bytes, std::size_t alignment = 16) {
    const HugeHeap::Block block = heap.allocate(bytes, alignment);
    EXPECT_NE(block.address, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.address) % alignment, 0u);
    if (block.is_zero) {
      EXPECT_TRUE(reads_zero(block.address, bytes));
    }
    return block.address;
  }
  /// Makes a kept range of so many bytes, whose front serves what is allocated next.
  char* keep(std::size_t bytes) {
    void* const p = allocate(bytes);
    heap.deallocate(p);
    return static_cast<char*>(p);
  }
  void TearDown() override { heap.check_invariants(); }
};

TEST_F(HugeHeapTest, ABlockHasItsSizeInWholeOsPages) {
  void* p = allocate(3 * kMiB + 1);
  EXPECT_EQ(heap.usable_bytes(p), 3 * kMiB + os::page_bytes());
  EXPECT_TRUE(pages.is_mapped(p, heap.usable_bytes(p)));
  EXPECT_EQ(heap.statistics().live_blocks, 1u);
  EXPECT_EQ(heap.statistics().live_bytes, heap.usable_bytes(p));
}

TEST_F(HugeHeapTest, KnowsOnlyTheStartsOfLiveBlocks) {
  EXPECT_FALSE(heap.deallocate(nullptr));
  EXPECT_FALSE(heap.deallocate(&heap));
  char* p = static_cast<char*>(allocate(2 * kMiB));
  for (void* wrong : {static_cast<void*>(nullptr), static_cast<void*>(p + 1),
                      static_cast<void*>(p + os::page_bytes()), static_cast<void*>(&p)}) {
    EXPECT_EQ(heap.usable_bytes(wrong), 0u);
    EXPECT_FALSE(heap.deallocate(wrong));
  }
  EXPECT_TRUE(heap.deallocate(p));
  EXPECT_EQ(heap.usable_bytes(p), 0u);
  EXPECT_FALSE(heap.deallocate(p));
}

TEST_F(HugeHeapTest, KeepsAlignmentFreshAndReused) {
  for (int round = 0; round < 2; ++round) {
    std::vector<void*> blocks;
    for (std::size_t alignment = 16; alignment <= 64 * kMiB; alignment *= 2)
      blocks.push_back(allocate(2 * kMiB, alignment));
    for (void* p : blocks) EXPECT_TRUE(heap.deallocate(p));
  }
}

TEST_F(HugeHeapTest, SizesThatNoMappingCanHaveAreNull) {
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 4096, std::size_t{PTRDIFF_MAX}}) {
    EXPECT_EQ(heap.allocate(bytes, 16).address, nullptr);
    EXPECT_EQ(heap.allocate(bytes, kMiB).address, nullptr);
  }
  void* p = allocate(2 * kMiB);
  write_content(p, 2 * kMiB, 5);
  EXPECT_EQ(heap.reallocate(p, SIZE_MAX), nullptr);
  EXPECT_EQ(heap.reallocate(p, PTRDIFF_MAX), nullptr);
  EXPECT_TRUE(has_content(p, 2 * kMiB, 5));
  EXPECT_EQ(heap.usable_bytes(p), 2 * kMiB);
}

TEST_F(HugeHeapTest, WhatTheKernelRefusesIsNotInThePeak) {
  MemoryLimit& limit = space.heap.limit();
  SharedLimit shared;
  limit.share(shared);
  void* const p = allocate(2 * kMiB);
  heap.deallocate(allocate(kMiB));  // can be extended
  heap.release_all();
  const std::size_t peak = limit.statistics().peak;
  heap.deallocate(allocate(kMiB));
  EXPECT_EQ(heap.allocate(PTRDIFF_MAX / 4, 16).address, nullptr);
  EXPECT_EQ(heap.allocate(PTRDIFF_MAX / 4, kMiB).address, nullptr);
  EXPECT_EQ(heap.reallocate(p, PTRDIFF_MAX / 4), nullptr);
  EXPECT_EQ(limit.statistics().peak, peak);
  EXPECT_EQ(shared.statistics().peak, peak);
  EXPECT_EQ(shared.held_bytes(), limit.held_bytes());
}

TEST_F(HugeHeapTest, WhatIsKeptMakesRoomWhereAddressesAreFew) {
  void* const block = allocate(2 * kMiB);
  keep(3 * kMiB);
  pages.limit_mapped_bytes(pages.mapped_bytes() + 11 * kMiB);
  void* const other = allocate(13 * kMiB);
  EXPECT_EQ(heap.kept_bytes(), 0u);
  heap.deallocate(other);
  pages.limit_mapped_bytes(pages.mapped_bytes());
  EXPECT_NE(heap.reallocate(block, 8 * kMiB), nullptr);
}

TEST_F(HugeHeapTest, WhatIsKeptStaysWhereABlockIsLargerThanAllAddresses) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator sets no limit of addresses";
  keep(6 * kMiB);
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &usual), 0);
  const rlimit few{16 * kMiB, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &few), 0);
  void* const block = heap.allocate(20 * kMiB, 16).address;
  setrlimit(RLIMIT_AS, &usual);
  EXPECT_EQ(block, nullptr);
  EXPECT_EQ(heap.kept_bytes(), 6 * kMiB);
}

TEST_F(HugeHeapTest, AFreedBlockIsUsedAgainWithoutAskingTheKernel) {
  allocate(kMiB);  // the table of blocks is there
  heap.deallocate(allocate(4 * kMiB));
  const std::size_t calls = pages.fallible_calls();
  const HugeHeap::Block again = heap.allocate(4 * kMiB, 16);
  EXPECT_EQ(pages.fallible_calls(), calls);
  EXPECT_FALSE(again.is_zero);
  const std::size_t mapped = pages.mapped_bytes();
  EXPECT_EQ(heap.statistics().kept_bytes, 0u);
  EXPECT_EQ(pages.mapped_bytes(), mapped);
}

TEST_F(HugeHeapTest, ResizingMovesTheContentsAlong) {
  void* p = allocate(2 * kMiB);
  write_content(p, 2 * kMiB, 9);
  p = heap.reallocate(p, 50 * kMiB);
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(has_prefix(p, 2 * kMiB, 9));
  EXPECT_EQ(heap.usable_bytes(p), 50 * kMiB);
  heap.check_invariants();
  EXPECT_EQ(heap.reallocate(p, 50 * kMiB - 1), p);
  p = heap.reallocate(p, kMiB);
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(has_prefix(p, kMiB, 9));
  EXPECT_EQ(heap.usable_bytes(p), kMiB);
  EXPECT_EQ(heap.statistics().live_bytes, kMiB);
}

/// A text that is written piece by piece. Its block may be an eighth longer than requested.
TEST_F(HugeHeapTest, ABlockThatGrowsInStepsSeldomAsksTheKernel) {
  const std::size_t step = os::page_bytes();
  std::size_t bytes = 2 * kMiB;
  void* p = allocate(bytes);
  write_content(p, 2 * kMiB, 9);
  const std::size_t calls_before = pages.calls(FakePageSource::kRemap);
  while (bytes < 10 * kMiB) {
    bytes += step;
    p = heap.reallocate(p, bytes);
    ASSERT_NE(p, nullptr);
    ASSERT_GE(heap.usable_bytes(p), bytes);
    ASSERT_LE(heap.usable_bytes(p), bytes + bytes / 8 + step);
  }
  EXPECT_LE(pages.calls(FakePageSource::kRemap) - calls_before, 16u);
  EXPECT_TRUE(has_prefix(p, 2 * kMiB, 9));
  // The block gives up what it shrinks by, and the headroom that it had not asked for.
  p = heap.reallocate(p, bytes - step);
  EXPECT_EQ(heap.usable_bytes(p), bytes - step);
  EXPECT_TRUE(has_prefix(p, 2 * kMiB, 9));
}

TEST_F(HugeHeapTest, ABlockGrowsIntoWhatIsKeptBehindIt) {
  heap.deallocate(allocate(8 * kMiB));
  void* const p = allocate(2 * kMiB);
  write_content(p, 2 * kMiB, 9);
  const std::size_t calls = pages.fallible_calls();
  for (std::size_t bytes = 3 * kMiB; bytes <= 8 * kMiB; bytes += kMiB) {
    ASSERT_EQ(heap.reallocate(p, bytes), p);
    EXPECT_EQ(heap.usable_bytes(p), bytes);
    EXPECT_EQ(heap.kept_bytes(), 8 * kMiB - bytes);
    heap.check_invariants();
  }
  EXPECT_EQ(pages.fallible_calls(), calls);
  EXPECT_TRUE(has_prefix(p, 2 * kMiB, 9));
  // The kept range behind the block is used up.
  void* const moved = heap.reallocate(p, 9 * kMiB);
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(pages.calls(FakePageSource::kRemap), 1u);
  EXPECT_TRUE(has_prefix(moved, 2 * kMiB, 9));
}

TEST_F(HugeHeapTest, WhatABlockShrinksByIsKept) {
  void* const p = allocate(8 * kMiB);
  write_content(p, 2 * kMiB, 9);
  const std::size_t calls = pages.fallible_calls();
  EXPECT_EQ(heap.reallocate(p, 2 * kMiB), p);
  EXPECT_EQ(heap.usable_bytes(p), 2 * kMiB);
  EXPECT_EQ(heap.statistics().live_bytes, 2 * kMiB);
  EXPECT_EQ(heap.kept_bytes(), 6 * kMiB);
  heap.check_invariants();
  // The kept range serves another block, and its rest this one.
  void* const other = allocate(3 * kMiB);
  EXPECT_EQ(other, static_cast<char*>(p) + 2 * kMiB);
  heap.deallocate(other);
  EXPECT_EQ(heap.reallocate(p, 8 * kMiB), p);
  EXPECT_EQ(heap.kept_bytes(), 0u);
  EXPECT_EQ(pages.fallible_calls(), calls);
  EXPECT_TRUE(has_content(p, 2 * kMiB, 9));
}

/// Mappings that go back only as a whole, as a program's own pages may.
struct WholePages : FakePageSource {
  bool is_divisible() const noexcept override { return false; }
};

TEST(HugeHeapOfWholePages, ABlockShrinksByRemapping) {
  WholePages pages;
  FakeAddressSpace space{pages};
  HugeHeap heap{space.heap, space.metadata, pages};
  void* p = heap.allocate(8 * kMiB, 16).address;
  ASSERT_NE(p, nullptr);
  write_content(p, 2 * kMiB, 9);
  p = heap.reallocate(p, 2 * kMiB);
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(has_prefix(p, 2 * kMiB, 9));
  EXPECT_EQ(heap.usable_bytes(p), 2 * kMiB);
  EXPECT_EQ(heap.kept_bytes(), 0u);
  EXPECT_EQ(pages.calls(FakePageSource::kRemap), 1u);
  heap.check_invariants();
}

TEST_F(HugeHeapTest, ABlockThatIsToGrowLiesWhereMostIsKept) {
  void* const small = allocate(3 * kMiB);
  allocate(kMiB);
  void* const large = allocate(6 * kMiB);
  allocate(kMiB);
  EXPECT_EQ(heap.allocate_to_grow(2 * kMiB), nullptr);
  heap.deallocate(small);
  heap.deallocate(large);
  // Unless the kernel placed the two side by side, so that they are one range.
  if (static_cast<char*>(small) + 3 * kMiB == large ||
      static_cast<char*>(large) + 6 * kMiB == small)
    return;
  EXPECT_EQ(heap.allocate_to_grow(2 * kMiB), large);
  EXPECT_EQ(heap.usable_bytes(large), 2 * kMiB);
  EXPECT_EQ(allocate(2 * kMiB), small);
  EXPECT_EQ(heap.allocate_to_grow(5 * kMiB), nullptr);
  EXPECT_EQ(heap.reallocate(large, 6 * kMiB), large);
}

TEST_F(HugeHeapTest, BlocksThatGrowByTurnsLeaveEachOtherRoom) {
  char* const kept = keep(24 * kMiB);
  void* const first = heap.allocate_to_grow(3 * kMiB);
  void* const second = heap.allocate_to_grow(2 * kMiB);
  EXPECT_EQ(first, kept);
  EXPECT_EQ(second, kept + 10 * kMiB) << "a third of what is behind the first one is left to it";
  void* const third = heap.allocate_to_grow(2 * kMiB);
  EXPECT_EQ(third, kept + 16 * kMiB);
  heap.check_invariants();
  const std::size_t calls = pages.fallible_calls();
  EXPECT_EQ(heap.reallocate(first, 8 * kMiB), first);
  EXPECT_EQ(heap.reallocate(second, 6 * kMiB), second);
  EXPECT_EQ(heap.reallocate(third, 8 * kMiB), third);
  EXPECT_EQ(heap.kept_bytes(), 2 * kMiB);
  EXPECT_EQ(pages.fallible_calls(), calls);
  // What the second block had now lies behind the first one. A third of it, in whole OS pages, is
  // left to the first.
  heap.deallocate(second);
  const std::size_t part = detail::round_down(8 * kMiB / 3, os::page_bytes());
  EXPECT_EQ(heap.allocate_to_grow(5 * kMiB), kept + 8 * kMiB + part);
}

TEST_F(HugeHeapTest, ABlockThatMayGrowGetsAllOfARangeRatherThanNone) {
  char* const kept = keep(15 * kMiB);
  ASSERT_EQ(allocate(9 * kMiB), kept);
  ASSERT_EQ(allocate(kMiB), kept + 9 * kMiB);
  ASSERT_EQ(allocate(5 * kMiB), kept + 10 * kMiB);
  heap.deallocate(kept);
  EXPECT_EQ(heap.allocate_to_grow(3 * kMiB), kept);
  heap.deallocate(kept + 10 * kMiB);
  // Of the 6 MiB behind the first block, 4 would remain for this one (a third is left to the
  // first), and elsewhere only 5 are kept.
  EXPECT_EQ(heap.allocate_to_grow(11 * kMiB / 2), kept + 3 * kMiB);
}

TEST_F(HugeHeapTest, WhatIsLeftToABlockIsFreeForOthersOnceThatHasMoved) {
  char* const kept = keep(24 * kMiB);
  void* const first = heap.allocate_to_grow(3 * kMiB);
  void* const second = heap.allocate_to_grow(2 * kMiB);
  EXPECT_EQ(second, kept + 10 * kMiB);
  // Longer than what is left to the block.
  EXPECT_NE(heap.reallocate(first, 20 * kMiB), first);
}

TEST_F(HugeHeapTest, WhatNoBlockGrowsIntoIsLeftToNone) {
  char* const kept = keep(24 * kMiB);
  void* const first = heap.allocate_to_grow(3 * kMiB);
  // Behind the first block now lies a block of another kind.
  EXPECT_EQ(allocate(3 * kMiB), kept + 3 * kMiB);
  EXPECT_EQ(heap.allocate_to_grow(2 * kMiB), kept + 6 * kMiB);
  // A range that was a block's own is left to no block.
  EXPECT_TRUE(heap.deallocate(kept + 6 * kMiB));
  EXPECT_EQ(heap.allocate_to_grow(2 * kMiB), kept + 6 * kMiB);
  EXPECT_TRUE(heap.deallocate(first));
}

/// As vectors grow: allocates a block of twice the size, then frees the old one.
TEST_F(HugeHeapTest, ForBlocksThatDoubleTheKernelIsSeldomAsked) {
  const auto grow = [&] {
    void* block = allocate(kMiB);
    for (std::size_t bytes = 2 * kMiB; bytes <= 16 * kMiB; bytes *= 2) {
      void* const twice = allocate(bytes);
      heap.deallocate(block);
      block = twice;
    }
    heap.deallocate(block);
  };
  for (int i = 0; i < 20; ++i) grow();
  const std::size_t calls = pages.fallible_calls();
  for (int i = 0; i < 20; ++i) grow();
  EXPECT_LE(pages.fallible_calls() - calls, 10u);
}

TEST_F(HugeHeapTest, ABlockGrowsByWhatItNeedsWhereThereIsALimit) {
  void* p = allocate(8 * kMiB);
  MemoryLimit& limit = space.heap.limit();
  limit.configure(0, limit.held_bytes() + 8 * kMiB);
  p = heap.reallocate(p, 8 * kMiB + 64 * 1024);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(heap.usable_bytes(p), 8 * kMiB + 64 * 1024);
  EXPECT_EQ(heap.reallocate(p, 17 * kMiB), nullptr);
  EXPECT_EQ(heap.usable_bytes(p), 8 * kMiB + 64 * 1024);
}

TEST_F(HugeHeapTest, AsMuchGoesBackAsABlockTakesThatGrows) {
  void* const p = allocate(2 * kMiB);
  keep(64 * kMiB);
  ASSERT_NE(heap.reallocate(p, 40 * kMiB), nullptr);
  EXPECT_EQ(heap.kept_bytes(), 26 * kMiB);
}

TEST_F(HugeHeapTest, AResizeThatIsRefusedLeavesTheBlockAsItWas) {
  void* p = allocate(2 * kMiB);
  write_content(p, 2 * kMiB, 9);
  pages.refuse_from_call(1);
  EXPECT_EQ(heap.reallocate(p, 4 * kMiB), nullptr);
  EXPECT_TRUE(has_content(p, 2 * kMiB, 9));
  EXPECT_EQ(heap.usable_bytes(p), 2 * kMiB);
  heap.check_invariants();
  EXPECT_TRUE(heap.deallocate(p));
}

TEST_F(HugeHeapTest, WhatWasNotNeededDuringAnIntervalGoesBack) {
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(allocate(2 * kMiB));
  for (void* p : blocks) heap.deallocate(p);
  EXPECT_EQ(heap.kept_bytes(), 20 * kMiB);
  EXPECT_EQ(heap.release_unneeded(), 0u);
  void* a = allocate(3 * kMiB);
  heap.deallocate(a);
  heap.release_unneeded();
  EXPECT_GE(heap.kept_bytes(), 3 * kMiB);
  EXPECT_LT(heap.kept_bytes(), 20 * kMiB);
  heap.release_unneeded();
  EXPECT_EQ(heap.kept_bytes(), 0u);
  EXPECT_EQ(bytes_of_blocks(), 0u);
}

/// Like video frames, or a server's buffers: a few live at a time, each of another size.
TEST_F(HugeHeapTest, WhereBlocksComeAndGoTheKernelIsSeldomAsked) {
  std::mt19937 random(1);
  std::vector<void*> blocks(20);
  std::size_t most = 0;
  const auto replace = [&](std::size_t times) {
    for (std::size_t i = 0; i < times; ++i) {
      void*& block = blocks[random() % blocks.size()];
      if (block != nullptr) heap.deallocate(block);
      block = allocate(kMiB + random() % kMiB);
      const HugeHeap::Statistics now = heap.statistics();
      most = std::max(most, now.live_bytes);
      EXPECT_LE(now.live_bytes + now.kept_bytes, most + most / 3);
    }
  };
  replace(500);
  const std::size_t calls = pages.fallible_calls();
  replace(500);
  EXPECT_LE(pages.fallible_calls() - calls, 60u);
}

TEST_F(HugeHeapTest, ForWhatTheProgramNeverHadBeforeAsMuchGoesBack) {
  // Each size is eight times the last: no kept range is extended to be the next block.
  for (const std::size_t bytes : {2 * kMiB, 16 * kMiB, 128 * kMiB}) {
    void* const block = allocate(bytes);
    EXPECT_EQ(heap.kept_bytes(), 0u);
    heap.deallocate(block);
  }
  EXPECT_EQ(bytes_of_blocks(), 128 * kMiB);
}

TEST_F(HugeHeapTest, WhereThereIsALimitBlocksThatComeAndGoKeepNothingBesides) {
  MemoryLimit& limit = space.heap.limit();
  limit.configure(0, 1024 * kMiB);
  std::mt19937 random(1);
  std::vector<void*> blocks(20);
  std::size_t most = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    void*& block = blocks[random() % blocks.size()];
    if (block != nullptr) heap.deallocate(block);
    block = allocate(kMiB + random() % kMiB);
    const HugeHeap::Statistics now = heap.statistics();
    most = std::max(most, now.live_bytes);
    ASSERT_LE(now.live_bytes + now.kept_bytes, most);
  }
}

TEST_F(HugeHeapTest, IdlePagesGoBackForBlocksAsTheyDidBeforeTheseCameAndWent) {
  void* const block = allocate(64 * kMiB);
  heap.deallocate(block);
  EXPECT_EQ(heap.release_all(), 64 * kMiB);
  std::vector<Span*> spans;
  for (int i = 0; i < 64; ++i) spans.push_back(space.heap.allocate(kPagesPerRegion));
  for (Span* const span : spans) space.heap.deallocate(*span);
  const std::size_t idle = space.heap.idle_pages();
  ASSERT_GE(idle * kPageBytes, 100 * kMiB);
  heap.deallocate(allocate(60 * kMiB));
  EXPECT_LE(space.heap.idle_pages() * kPageBytes, idle * kPageBytes - 60 * kMiB);
}

TEST_F(HugeHeapTest, WhatWasHardlyTouchedIsUnmappedAndTheRestStays) {
  void* const used = allocate(4 * kMiB);
  void* const between = allocate(2 * kMiB);
  void* const bare = allocate(8 * kMiB);
  std::memset(used, 1, 4 * kMiB);
  std::memset(between, 1, 2 * kMiB);
  static_cast<char*>(bare)[0] = 1;
  heap.deallocate(used);
  heap.deallocate(bare);
  // Unless the kernel placed the two side by side, so that they are one range.
  const bool are_apart =
      static_cast<char*>(used) + 4 * kMiB != bare && static_cast<char*>(bare) + 8 * kMiB != used;
  if (are_apart && os::is_hardly_touched(bare, 8 * kMiB)) {
    EXPECT_EQ(heap.release_untouched(), 8 * kMiB);
    EXPECT_EQ(heap.kept_bytes(), 4 * kMiB);
    EXPECT_EQ(bytes_of_blocks(), 6 * kMiB);
  }
  EXPECT_EQ(heap.release_untouched(), 0u);
  const HugeHeap::Block again = heap.allocate(4 * kMiB, 16);
  EXPECT_NE(again.address, nullptr);
  EXPECT_FALSE(again.is_zero) << "what was touched is kept";
}

TEST_F(HugeHeapTest, WhatIsClearedGoesBackWhereMuchOfItHoldsNoMemory) {
  const std::size_t bytes = 4 * kMiB + 100;
  struct {
    bool is_touched;
    bool is_refused;
    std::size_t decommits;
  } const cases[] = {{true, false, 0}, {false, false, 1}, {false, true, 0}};
  for (const auto& each : cases) {
    void* const p = allocate(bytes);
    write_content(p, bytes, 7);
    heap.deallocate(p);
    const HugeHeap::Block again = heap.allocate(bytes, 16);
    ASSERT_EQ(again.address, p);
    ASSERT_FALSE(again.is_zero);
    pages.say_touched(each.is_touched);
    pages.refuse_decommits(each.is_refused);
    const std::size_t before = pages.calls(FakePageSource::kDecommit);
    heap.clear(p, bytes);
    if (!each.is_refused) {
      EXPECT_EQ(pages.calls(FakePageSource::kDecommit), before + each.decommits);
    }
    EXPECT_TRUE(reads_zero(p, bytes));
    heap.deallocate(p);
    heap.check_invariants();
  }
  // For a very long block, nobody asks whether it was touched.
  pages.refuse_decommits(false);
  pages.say_touched(true);
  auto* const p = static_cast<char*>(allocate(2048 * kMiB));
  p[0] = 7;
  const std::size_t before = pages.calls(FakePageSource::kDecommit);
  heap.clear(p, 2048 * kMiB);
  EXPECT_EQ(pages.calls(FakePageSource::kDecommit), before + 1);
  EXPECT_EQ(p[0], 0);
}

TEST_F(HugeHeapTest, WhatTheKernelCannotCutOutHoldsNothingAndIsUsedAgain) {
  void* const a = allocate(4 * kMiB);
  write_content(a, 4 * kMiB, 7);
  heap.deallocate(a);
  pages.refuse_unmaps(true);
  EXPECT_EQ(heap.release_all(), 4 * kMiB);
  heap.check_invariants();
  EXPECT_EQ(heap.kept_bytes(), 0u);
  EXPECT_EQ(heap.statistics().stuck_bytes, 4 * kMiB);
  EXPECT_EQ(space.heap.limit().held_bytes(), space.metadata.mapped_bytes());
  const HugeHeap::Block again = heap.allocate(kMiB, 16);
  EXPECT_EQ(again.address, a) << "its addresses are lost";
  EXPECT_FALSE(again.is_zero);
  EXPECT_EQ(heap.statistics().stuck_bytes, 3 * kMiB);
  heap.deallocate(again.address);
  pages.refuse_unmaps(false);
  heap.release_all();
  EXPECT_EQ(heap.statistics().stuck_bytes, 0u);
  EXPECT_EQ(bytes_of_blocks(), 0u);
}

TEST_F(HugeHeapTest, HoweverManyRangesAreStuckTheyAreUnmappedLater) {
  constexpr std::size_t kRanges = KeptRanges::kMost + 300;
  std::vector<void*> freed;
  std::vector<void*> between;
  for (std::size_t i = 0; i < kRanges; ++i) {
    freed.push_back(allocate(os::page_bytes()));
    between.push_back(allocate(os::page_bytes()));
  }
  pages.refuse_unmaps(true);
  for (void* const p : freed) heap.deallocate(p);
  heap.check_invariants();
  EXPECT_EQ(heap.statistics().stuck_bytes + heap.kept_bytes(), kRanges * os::page_bytes());
  heap.release_all();
  EXPECT_EQ(heap.statistics().stuck_bytes, kRanges * os::page_bytes());
  for (void* const p : between) heap.deallocate(p);
  pages.refuse_unmaps(false);
  heap.release_unneeded();
  EXPECT_EQ(heap.statistics().stuck_bytes, 0u);
  heap.release_all();
  heap.check_invariants();
  EXPECT_EQ(bytes_of_blocks(), 0u);
  EXPECT_EQ(space.heap.limit().held_bytes(), space.metadata.mapped_bytes());
}

/// Cannot cut out some ranges, like a kernel at vm.max_map_count, which unmaps only whole mappings.
struct PartlyStuckPageSource : FakePageSource {
  bool unmap(void* address, std::size_t bytes) noexcept override {
    if (stuck.count(address) == 0) return FakePageSource::unmap(address, bytes);
    decommit(address, bytes);
    return false;
  }
  std::set<void*> stuck;
};

TEST(HugeHeapWhereSomeIsStuck, TheRestGoesBackAllTheSame) {
  PartlyStuckPageSource pages;
  FakeAddressSpace space{pages};
  HugeHeap heap{space.heap, space.metadata, pages};
  std::vector<void*> blocks;
  for (int i = 0; i < 12; ++i) blocks.push_back(heap.allocate(4 * kMiB, 16).address);
  // Frees every other block, so that none is kept together with its neighbour.
  std::size_t freed = 0;
  for (std::size_t i = 0; i < blocks.size(); i += 2, ++freed) {
    if (i < 4) pages.stuck.insert(blocks[i]);
    heap.deallocate(blocks[i]);
  }
  EXPECT_EQ(heap.release_all(), freed * 4 * kMiB);
  EXPECT_EQ(heap.statistics().stuck_bytes, 2 * 4 * kMiB);
  heap.check_invariants();
  // A part of one stuck range serves a request; the rest stays stuck.
  EXPECT_EQ(heap.allocate(kMiB, 16).address, blocks[0]);
  EXPECT_EQ(heap.statistics().stuck_bytes, 7 * kMiB);
}

TEST(HugeHeapWhereSomeIsStuck, ManyThatStayKeepNoneOfTheOthersFromGoingBack) {
  PartlyStuckPageSource pages;
  FakeAddressSpace space{pages};
  HugeHeap heap{space.heap, space.metadata, pages};
  constexpr std::size_t kStay = 20;
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 4 * kStay; ++i)
    blocks.push_back(heap.allocate(os::page_bytes(), 16).address);
  // Frees every other block, as above; of these every other one stays stuck.
  std::set<void*> stay;
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    pages.stuck.insert(blocks[i]);
    if (i % 4 == 0) stay.insert(blocks[i]);
    heap.deallocate(blocks[i]);
  }
  heap.release_all();
  pages.stuck = stay;
  heap.release_all();
  EXPECT_EQ(heap.statistics().stuck_bytes, kStay * os::page_bytes());
}

/// Has no addresses for an alignment of more than a page, and notes what is held meanwhile.
struct NarrowPageSource : FakePageSource {
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override {
    note();
    return alignment > os::page_bytes() ? nullptr : FakePageSource::map_aligned(bytes, alignment);
  }
  void* remap(void* address, std::size_t old_bytes, std::size_t new_bytes) noexcept override {
    note();
    return FakePageSource::remap(address, old_bytes, new_bytes);
  }
  void note() noexcept {
    if (limit != nullptr && limit->held_bytes() > most_held) most_held = limit->held_bytes();
  }
  MemoryLimit* limit = nullptr;
  std::size_t most_held = 0;
};

struct HugeHeapWhereAddressesAreFew : ::testing::Test {
  NarrowPageSource pages;
  FakeAddressSpace space{pages};
  HugeHeap heap{space.heap, space.metadata, pages};
};

TEST_F(HugeHeapWhereAddressesAreFew, ABlockFitsThoughThereIsNoRoomToAlignItForHugePages) {
  EXPECT_NE(heap.allocate(20 * kMiB, 16).address, nullptr);
  EXPECT_EQ(heap.allocate(20 * kMiB, kMiB).address, nullptr);
  heap.check_invariants();
}

TEST_F(HugeHeapWhereAddressesAreFew, WhatNoMachineHasIsNotHeldWhileTheKernelIsAsked) {
  void* const p = heap.allocate(4 * kMiB, 16).address;
  heap.deallocate(heap.allocate(8 * kMiB, 16).address);  // can be extended
  const std::size_t held = space.limit.held_bytes();
  pages.limit = &space.limit;
  EXPECT_EQ(heap.allocate(PTRDIFF_MAX / 4, 16).address, nullptr);
  EXPECT_EQ(heap.allocate(PTRDIFF_MAX / 4, kMiB).address, nullptr);
  EXPECT_EQ(heap.reallocate(p, PTRDIFF_MAX / 4), nullptr);
  EXPECT_LE(pages.most_held, held);
  EXPECT_NE(pages.most_held, 0u);
}

TEST_F(HugeHeapTest, ABlockThatComesBackInEveryIntervalIsNotThrashed) {
  heap.deallocate(allocate(4 * kMiB));
  const std::size_t unmaps = pages.calls(FakePageSource::kUnmap);
  for (int round = 0; round < 10; ++round) {
    heap.deallocate(allocate(4 * kMiB));
    EXPECT_EQ(heap.release_unneeded(), 0u);
  }
  EXPECT_EQ(pages.calls(FakePageSource::kUnmap), unmaps);
}

TEST_F(HugeHeapTest, ABlockWithHugePagesHasSmallOnesAtItsEnds) {
  auto* const above = static_cast<char*>(allocate(20 * kMiB));
  auto* const below = static_cast<char*>(allocate(20 * kMiB));
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 2u);
  for (const char* const block : {above, below})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (2 * kMiB), kMiB);
  EXPECT_GE(std::max(above, below) - std::min(above, below), 22 * static_cast<std::ptrdiff_t>(kMiB))
      << "what lies between is no part of either";
  EXPECT_EQ(bytes_of_blocks(), 40 * kMiB);
}

TEST_F(HugeHeapTest, ABlockThatIsAlignedToHugePagesHasThemFromItsStart) {
  allocate(20 * kMiB, 2 * kMiB);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 1u);
}

TEST_F(HugeHeapTest, NoBlockAsksForHugePagesOnceAFreedOneWasHardlyTouched) {
  void* const first = allocate(20 * kMiB);
  pages.say_touched(false);
  heap.deallocate(first);
  heap.release_all();
  void* const second = allocate(20 * kMiB);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 1u);
  pages.say_touched(true);
  heap.deallocate(second);
  heap.release_all();
  allocate(20 * kMiB);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 2u);
}

TEST_F(HugeHeapTest, NoBlockAsksForHugePagesOnceOneInUseIsHardlyTouchedForLong) {
  allocate(20 * kMiB);
  pages.say_touched(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  allocate(20 * kMiB);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 1u);
}

TEST_F(HugeHeapTest, ABlockThatGrowsAsksForHugePagesFrom16MiBOn) {
  void* p = allocate(2 * kMiB);
  for (const std::size_t mib : {4, 8, 15}) p = heap.reallocate(p, mib * kMiB);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 0u);
  p = heap.reallocate(p, 30 * kMiB);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 1u);
}

TEST_F(HugeHeapTest, ABlockThatGrowsThoughItsBeginningIsEmptyAsksForNoHugePages) {
  void* p = allocate(4 * kMiB);
  pages.say_touched(false);
  p = heap.reallocate(p, 40 * kMiB);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 0u);
}

TEST_F(HugeHeapTest, ABlockThatTakesOverWhatIsKeptAsksForHugePagesAsOthersDo) {
  keep(8 * kMiB);
  allocate(20 * kMiB);
  EXPECT_EQ(pages.calls(FakePageSource::kRemap), 1u);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 1u);
}

TEST_F(HugeHeapTest, HoldsThousandsOfBlocks) {
  std::map<char*, std::size_t> blocks;
  for (std::size_t i = 0; i < 5000; ++i) {
    const std::size_t bytes = (1 + i % 3) * os::page_bytes();
    blocks.emplace(static_cast<char*>(allocate(bytes)), bytes);
  }
  heap.check_invariants();
  EXPECT_EQ(heap.statistics().live_blocks, 5000u);
  std::size_t i = 0;
  for (auto it = blocks.begin(); it != blocks.end(); ++i) {
    EXPECT_EQ(heap.usable_bytes(it->first), it->second);
    if (i % 3 == 0) {
      ++it;
      continue;
    }
    EXPECT_TRUE(heap.deallocate(it->first));
    it = blocks.erase(it);
  }
  heap.check_invariants();
  for (auto& [p, bytes] : blocks) EXPECT_EQ(heap.usable_bytes(p), bytes);
  for (auto& [p, bytes] : blocks) EXPECT_TRUE(heap.deallocate(p));
  heap.release_all();
  EXPECT_EQ(bytes_of_blocks(), 0u);
}

TEST_F(HugeHeapTest, ThreadsShareIt) {
  constexpr int kThreads = 4;
  run_together(kThreads, [&](int t) {
    std::vector<std::pair<void*, std::size_t>> mine;
    for (std::size_t i = 0; i < 400; ++i) {
      const std::uint64_t tag = static_cast<std::uint64_t>(t) << 32;
      if (mine.size() < 6) {
        const std::size_t bytes = kMiB + (i * 7919 % 64) * 64 * 1024;
        const HugeHeap::Block block = heap.allocate(bytes, 16);
        ASSERT_NE(block.address, nullptr);
        if (block.is_zero) {
          ASSERT_TRUE(reads_zero(block.address, bytes));
        }
        write_content(block.address, bytes, tag);
        mine.emplace_back(block.address, bytes);
      } else {
        auto& [p, bytes] = mine[i % mine.size()];
        ASSERT_TRUE(has_prefix(p, bytes, tag));
        if (i % 4 == 0) {
          void* moved = heap.reallocate(p, bytes + kMiB);
          if (moved == nullptr) continue;  // the kernel keeps the block as two mappings
          p = moved;
          bytes += kMiB;
          write_content(p, bytes, tag);
        } else {
          ASSERT_TRUE(heap.deallocate(p));
          mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(i % mine.size()));
        }
      }
      if (t == 0 && i % 50 == 0) heap.release_unneeded();
    }
    for (auto& [p, bytes] : mine) ASSERT_TRUE(heap.deallocate(p));
  });
  EXPECT_EQ(heap.statistics().live_blocks, 0u);
  heap.release_all();
  EXPECT_EQ(bytes_of_blocks(), 0u);
}

/// Random operations against a map of the live blocks.
class HugeHeapRandomTest : public SeededTest, protected Fixture {
 protected:
  struct Live {
    std::size_t bytes;
    std::uint64_t tag;
  };
  std::map<char*, Live> live;
  std::size_t live_bytes = 0;
  std::size_t peak_live_bytes = 0;

  void take(const HugeHeap::Block& block, std::size_t bytes, std::size_t alignment) {
    char* const p = static_cast<char*>(block.address);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    ASSERT_GE(heap.usable_bytes(p), bytes);
    const std::size_t usable = heap.usable_bytes(p);
    ASSERT_TRUE(pages.is_mapped(p, usable));
    if (block.is_zero) {
      ASSERT_TRUE(reads_zero(p, usable));
    }
    insert(p, usable, random());
  }

  void insert(char* p, std::size_t bytes, std::uint64_t tag) {
    auto above = live.lower_bound(p);
    if (above != live.end()) {
      ASSERT_LE(p + bytes, above->first);
    }
    if (above != live.begin()) {
      --above;
      ASSERT_LE(above->first + above->second.bytes, p);
    }
    write_content(p, bytes, tag);
    live.emplace(p, Live{bytes, tag});
    live_bytes += bytes;
    peak_live_bytes = std::max(peak_live_bytes, live_bytes);
  }

  Live remove(std::map<char*, Live>::iterator it) {
    const Live entry = it->second;
    EXPECT_TRUE(has_content(it->first, entry.bytes, entry.tag));
    live_bytes -= entry.bytes;
    live.erase(it);
    return entry;
  }

  std::map<char*, Live>::iterator choose() {
    auto it = live.begin();
    std::advance(it, below(live.size()));
    return it;
  }

  void step() {
    const std::size_t action = below(100);
    if (live.size() < 3 || (action < 45 && live.size() < 60)) {
      const std::size_t bytes = 1 + below(3 * kMiB);
      const std::size_t alignment = below(4) == 0 ? std::size_t{16} << below(19) : 16;
      void* const to_grow =
          alignment == 16 && below(3) == 0 ? heap.allocate_to_grow(bytes) : nullptr;
      const HugeHeap::Block block =
          to_grow != nullptr ? HugeHeap::Block{to_grow, false} : heap.allocate(bytes, alignment);
      if (block.address != nullptr) take(block, bytes, alignment);
    } else if (action < 75) {
      auto it = choose();
      char* const p = it->first;
      remove(it);
      ASSERT_TRUE(heap.deallocate(p));
      ASSERT_FALSE(heap.deallocate(p));
    } else if (action < 95) {
      auto it = choose();
      char* const p = it->first;
      const bool is_step = below(2) == 0;
      const std::size_t wanted =
          is_step ? it->second.bytes + below(64 * 1024) : 1 + below(4 * kMiB);
      const std::size_t calls = pages.fallible_calls();
      const bool stays = below(2) == 0 && heap.resize_in_place(p, wanted);
      auto* moved = stays ? p : static_cast<char*>(heap.reallocate(p, wanted));
      ASSERT_TRUE(!stays || pages.fallible_calls() == calls);
      if (moved != nullptr) {
        const Live before = it->second;
        live_bytes -= before.bytes;
        live.erase(it);
        const std::size_t usable = heap.usable_bytes(moved);
        ASSERT_GE(usable, wanted);
        ASSERT_TRUE(has_prefix(moved, std::min(usable, before.bytes), before.tag));
        insert(moved, usable, before.tag);
      }
    } else if (action < 98) {
      heap.release_unneeded();
    } else {
      heap.release_all();
    }
    check();
  }

  void check() {
    heap.check_invariants();
    const HugeHeap::Statistics now = heap.statistics();
    ASSERT_EQ(now.live_blocks, live.size());
    ASSERT_EQ(now.live_bytes, live_bytes);
    ASSERT_EQ(bytes_of_blocks(), live_bytes + now.kept_bytes);
    ASSERT_EQ(space.heap.limit().held_bytes(),
              space.metadata.mapped_bytes() + live_bytes + now.kept_bytes);
    ASSERT_LE(live_bytes + now.kept_bytes, peak_live_bytes + peak_live_bytes / 3);
  }

  void finish() {
    while (!live.empty()) {
      char* const p = live.begin()->first;
      remove(live.begin());
      ASSERT_TRUE(heap.deallocate(p));
    }
    heap.release_all();
    check();
    ASSERT_EQ(bytes_of_blocks(), 0u);
  }
};

TEST_F(HugeHeapRandomTest, BlocksNeverOverlapAndKeepTheirContents) {
  for (int i = 0; i < 3000 && !HasFailure(); ++i) step();
  finish();
}

TEST_F(HugeHeapRandomTest, WorksOnWhereverTheKernelRefuses) {
  for (int i = 0; i < 3000 && !HasFailure(); ++i) {
    if (i % 8 == 0) pages.refuse_call(1 + below(4), 1 + below(3));
    step();
  }
  pages.refuse_nothing();
  finish();
}

TEST_F(HugeHeapRandomTest, CountsWhatItHoldsBelowALimit) {
  space.heap.limit().configure(0, 64 * kMiB);
  for (int i = 0; i < 3000 && !HasFailure(); ++i) step();
  finish();
}

TEST_F(HugeHeapRandomTest, NothingIsLostWhenTheTableOfBlocksCannotGrow) {
  std::vector<char*> blocks;
  for (int i = 0; i < 2000; ++i) {
    pages.refuse_call(1 + below(3));
    const HugeHeap::Block block = heap.allocate(os::page_bytes(), 16);
    if (block.address != nullptr) take(block, os::page_bytes(), 16);
    if (i % 100 == 0) check();
  }
  EXPECT_GT(live.size(), 500u);
  pages.refuse_nothing();
  finish();
}

}  // namespace
}  // namespace strata
