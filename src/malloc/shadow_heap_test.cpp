#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "base/shadow_test.h"
#include "malloc/malloc_in_test.h"

namespace strata {
namespace {

/// A thread that allocates, resizes, frees and passes on blocks, and checks all that it sees.
class ShadowedThread {
 public:
  ShadowedThread(MallocInstance& malloc, Shadow& shadow, std::uint64_t seed)
      : shadow_(shadow), random_(seed), thread_(malloc) {}

  void step() {
    const std::size_t action = below(100);
    if (blocks_.empty() || (action < 45 && blocks_.size() < kMostBlocks)) {
      const std::size_t alignment = below(8) == 0 ? std::size_t{1} << below(20) : 16;
      allocate(pick_size(), alignment);
    } else if (action < 85) {
      const std::size_t index = below(blocks_.size());
      const Block block = blocks_[index];
      blocks_[index] = blocks_.back();
      blocks_.pop_back();
      deallocate(block);
    } else {
      // realloc to 0 bytes would make no block.
      reallocate(blocks_[below(blocks_.size())], std::max<std::size_t>(pick_size(), 1));
    }
  }

  std::optional<Block> give_away() {
    if (blocks_.empty()) return std::nullopt;
    const Block block = blocks_.back();
    blocks_.pop_back();
    return block;
  }
  void deallocate(const Block& block) {
    ASSERT_TRUE(has_content(block, block.bytes));
    shadow_.remove(block.address);
    thread_.deallocate(block.address);
  }
  void finish() {
    while (const std::optional<Block> block = give_away()) deallocate(*block);
    thread_.end();
  }

 private:
  static constexpr std::size_t kMostBlocks = 300;

  std::size_t below(std::size_t limit) { return random_() % limit; }

  /// Mostly small, as programs request; up to 4 MiB; often just around a boundary.
  std::size_t pick_size() {
    const std::size_t kind = below(100);
    if (kind < 60) return below(1100);
    if (kind < 80) return below(40'000);
    if (kind < 90) return below(SizeClassMap::kMaxBytes + 20'000);
    if (kind < 96) return below(Engine::kMaxLargeBytes + 100'000);
    if (kind < 98) return (std::size_t{1} << below(22)) + below(3) - 1;
    return below(4 * kMiB);
  }

  void allocate(std::size_t bytes, std::size_t alignment) {
    const bool is_zeroed = alignment == 16 && below(4) == 0;
    void* const p = is_zeroed         ? thread_.allocate_zeroed(bytes)
                    : alignment == 16 ? thread_.allocate(bytes)
                                      : thread_.allocate(bytes, alignment);
    ASSERT_NE(p, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    take(p, bytes);
    if (is_zeroed) {
      for (std::size_t i = 0; i < bytes; i += 512) ASSERT_EQ(blocks_.back().address[i], 0);
    }
    write_content(blocks_.back());
  }

  void reallocate(Block& block, std::size_t bytes) {
    shadow_.remove(block.address);
    const std::size_t kept = std::min(bytes, block.bytes);
    auto* p = static_cast<unsigned char*>(thread_.reallocate(block.address, bytes));
    ASSERT_NE(p, nullptr);
    block.address = p;
    ASSERT_TRUE(has_content(block, kept));
    block.bytes = bytes;
    ASSERT_GE(thread_.usable_bytes(p), bytes);
    shadow_.add(p, thread_.usable_bytes(p));
    write_content(block);
  }

  void take(void* p, std::size_t bytes) {
    const std::size_t usable = thread_.usable_bytes(p);
    ASSERT_GE(usable, bytes);
    shadow_.add(p, usable);
    blocks_.push_back({static_cast<unsigned char*>(p), bytes, random_()});
  }

  Shadow& shadow_;
  std::mt19937_64 random_;
  TestThread thread_;
  std::vector<Block> blocks_;
};

class ShadowHeap : public SeededTest, protected TestMalloc {
 protected:
  void run_alone(Options options, int steps) {
    start(options);
    Shadow shadow;
    ShadowedThread thread(malloc, shadow, random());
    for (int i = 0; i < steps && !HasFailure(); ++i) {
      thread.step();
      if (below(300) == 0) engine.release_unneeded();
      if (below(2000) == 0) engine.release_all();
      if (i % 16 == 0) check();
    }
    thread.finish();
    check_nothing_is_left();
  }
};

TEST_F(ShadowHeap, OneThreadOfAnySizes) { run_alone(Options{}, 12'000); }

TEST_F(ShadowHeap, OneThreadWithHugePagesEverywhere) {
  run_alone({.huge_pages = HugePages::kAlways}, 3000);
}

TEST_F(ShadowHeap, OneThreadWithoutACache) { run_alone({.cache_bytes = 0}, 3000); }

TEST_F(ShadowHeap, OneThreadUnderFullChecks) {
  start({.checks = Options::Checks::kFull});
  Shadow shadow;
  ShadowedThread thread(malloc, shadow, random());
  for (int i = 0; i < 4000 && !HasFailure(); ++i) {
    thread.step();
    if (below(300) == 0) engine.release_unneeded();
    if (below(1000) == 0) malloc.checked().flush_quarantine();
    if (i % 16 == 0) check();
  }
  thread.finish();
  check_nothing_is_left();
}

TEST_F(ShadowHeap, OneThreadWhoseFreesAreVerified) {
  run_alone({.checks = Options::Checks::kFrees}, 6000);
}

TEST_F(ShadowHeap, ThreadsUnderFullChecks) {
  start({.checks = Options::Checks::kFull});
  Shadow shadow;
  run_together(3, [&, seed = random()](std::uint64_t t) {
    ShadowedThread thread(malloc, shadow, seed + t);
    for (int i = 0; i < 1500 && !HasFailure(); ++i) {
      thread.step();
      if (i % 500 == 0) malloc.checked().flush_quarantine();
    }
    thread.finish();
  });
  check_nothing_is_left();
}

class ShadowHeapOfThreads : public ShadowHeap,
                            public ::testing::WithParamInterface<Options::Checks> {};
INSTANTIATE_TEST_SUITE_P(Checks, ShadowHeapOfThreads,
                         ::testing::Values(Options::Checks::kBasic, Options::Checks::kFrees));

TEST_P(ShadowHeapOfThreads, HandBlocksToEachOther) {
  constexpr int kSteps = 2500;
  start({.checks = GetParam()});
  Shadow shadow;
  // A block that one thread leaves here is freed by the next that comes.
  struct Shelf {
    std::mutex mutex;
    std::optional<Block> block;
  } shelves[8];
  const auto hand_over = [&, seed = random()](int t) {
    ShadowedThread thread(malloc, shadow, seed + 2 * static_cast<std::uint64_t>(t));
    std::mt19937_64 choose(seed + 2 * static_cast<std::uint64_t>(t) + 1);
    for (int i = 0; i < kSteps && !HasFailure(); ++i) {
      thread.step();
      if (i % 3 != 0) continue;
      Shelf& shelf = shelves[choose() % std::size(shelves)];
      std::optional<Block> found = thread.give_away();
      {
        std::lock_guard guard(shelf.mutex);
        found.swap(shelf.block);
      }
      if (found) thread.deallocate(*found);
    }
    thread.finish();
  };
  run_together(4, hand_over, [&] {
    engine.release_unneeded();
    statistics();
    std::this_thread::yield();
  });
  ShadowedThread last(malloc, shadow, 1);
  for (Shelf& shelf : shelves) {
    if (shelf.block) last.deallocate(*shelf.block);
  }
  last.finish();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
