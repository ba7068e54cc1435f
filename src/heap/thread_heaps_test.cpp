#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <strata/thread_heaps.hpp>
#include <thread>
#include <vector>

#include "os/fake_page_source.h"
#include "os/process.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

namespace strata {
namespace {

std::uint64_t seed() {
  const char* text = std::getenv("STRATA_SEED");
  const std::uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 0) : 20240611;
  std::printf("STRATA_SEED=%llu\n", static_cast<unsigned long long>(value));
  return value;
}

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

ThreadHeaps::Options small_arenas(os::PageSource* pages = nullptr) {
  ThreadHeaps::Options options;
  options.arena_bytes = kMiB;
  options.pages = pages;
  return options;
}

template <typename Body>
void in_thread(Body body) {
  std::thread(body).join();
}

/// Waits for what another thread will do; the test's own timeout ends a wait for ever.
template <typename Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// --- sizes, budgets ---------------------------------------------------------------------------

TEST(ThreadHeaps, ServesEverySizeAlignedAndTakesItBack) {
  ThreadHeaps heaps(small_arenas());
  for (std::size_t bytes = 0; bytes < 600'000; bytes += 1 + bytes / 8) {
    for (std::size_t alignment : {1, 16, 64, 4096}) {
      void* block = heaps.allocate(bytes, alignment);
      ASSERT_NE(block, nullptr) << bytes;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (alignment < 16 ? 16 : alignment), 0u);
      EXPECT_GE(heaps.usable_size(block), bytes);
      std::memset(block, 1, heaps.usable_size(block));
      heaps.deallocate(block);
    }
  }
  heaps.check_invariants();
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
}

TEST(ThreadHeaps, ReusesASmallBlockAtOnceWithoutTouchingTheArena) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(60);
  heaps.deallocate(block);
  EXPECT_EQ(heaps.allocate(40), block);
  heaps.deallocate(block);
  EXPECT_NE(heaps.allocate(20), block) << "of another bin";
}

TEST(ThreadHeaps, WorksWithAnyBinsAndWithNone) {
  for (std::size_t last : {16, 128, 1024}) {
    ThreadHeaps::Options options = small_arenas();
    std::size_t bins[ThreadHeaps::kMaxSmallBins] = {};
    if (last > 16) bins[0] = 16;
    bins[last > 16 ? 1 : 0] = last;
    std::copy(std::begin(bins), std::end(bins), options.small_bins);
    ThreadHeaps heaps(options);
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
      for (std::size_t bytes = 0; bytes < 1500; ++bytes) blocks.push_back(heaps.allocate(bytes));
      heaps.check_invariants();
      for (void* block : blocks) heaps.deallocate(block);
      heaps.check_invariants();
      blocks.clear();
    }
    EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  }
  ThreadHeaps::Options options = small_arenas();
  options.small_bins[0] = 0;
  ThreadHeaps heaps(options);
  heaps.deallocate(heaps.allocate(10));
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

TEST(ThreadHeaps, GivesAThreadItsBudgetAndNotAByteMore) {
  os::FakePageSource pages;
  ThreadHeaps::Options options = small_arenas(&pages);
  options.thread_budget_bytes = 2 * kMiB + 512 * kKiB;  // two arenas and a smaller one
  ThreadHeaps heaps(options);
  const auto fill = [&] {
    std::size_t blocks = 0;
    while (heaps.allocate(10'000) != nullptr) ++blocks;
    return blocks;
  };
  const std::size_t mine = fill();
  EXPECT_GT(mine * 10'000, options.thread_budget_bytes * 9 / 10);
  EXPECT_EQ(heaps.statistics().held_bytes, options.thread_budget_bytes);
  EXPECT_EQ(heaps.statistics().arenas, 3u);
  EXPECT_EQ(heaps.statistics().failed_allocations, 1u);
  std::size_t theirs = 0;
  in_thread([&] { theirs = fill(); });
  EXPECT_EQ(theirs, mine);
  EXPECT_EQ(heaps.statistics().held_bytes, 2 * options.thread_budget_bytes);
  heaps.check_invariants();
}

TEST(ThreadHeaps, GivesAllThreadsTogetherTheTotalBudget) {
  ThreadHeaps::Options options = small_arenas();
  options.total_budget_bytes = 3 * kMiB;
  ThreadHeaps heaps(options);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (heaps.allocate(10'000) != nullptr) {
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(heaps.statistics().held_bytes, 3 * kMiB);
  EXPECT_GE(heaps.statistics().bytes_in_use, 2 * kMiB);
  heaps.check_invariants();
}

TEST(ThreadHeaps, EmptiesItsCacheBeforeItRefuses) {
  ThreadHeaps::Options options = small_arenas();
  options.arena_bytes = options.thread_budget_bytes = ThreadHeaps::kMinArenaBytes;
  ThreadHeaps heaps(options);
  std::vector<void*> blocks;
  while (void* block = heaps.allocate(256)) blocks.push_back(block);
  ASSERT_GT(blocks.size(), 100u);
  for (void* block : blocks) heaps.deallocate(block);  // 64 or fewer stay in the cache
  void* large = heaps.allocate(50'000);
  EXPECT_NE(large, nullptr);
  heaps.deallocate(large);
}

TEST(ThreadHeaps, RefusesWhatNoArenaHolds) {
  os::FakePageSource pages;
  ThreadHeaps heaps(small_arenas(&pages));
  for (std::size_t bytes :
       {kMiB - 3000, kMiB, 10 * kMiB, std::size_t{1} << 40, SIZE_MAX - 15, SIZE_MAX}) {
    EXPECT_EQ(heaps.allocate(bytes), nullptr);
    EXPECT_EQ(heaps.allocate(bytes, 64), nullptr);
  }
  EXPECT_EQ(heaps.allocate(100, kMiB), nullptr);
  EXPECT_EQ(pages.mapped_bytes(), 0u) << "no arena is taken in vain";
  EXPECT_EQ(heaps.statistics().failed_allocations, 13u);
}

TEST(ThreadHeaps, ServesWhatJustFitsAFreshArena) {
  std::size_t served = 0;
  for (std::size_t bytes = kMiB - 5000; bytes < kMiB; bytes += 8) {
    ThreadHeaps heaps(small_arenas());
    void* block = heaps.allocate(bytes);
    if (block == nullptr) {
      EXPECT_EQ(heaps.statistics().held_bytes, 0u) << bytes;
      break;
    }
    served = bytes;
    std::memset(block, 1, bytes);
  }
  EXPECT_GT(served, kMiB - 4096);
  for (std::size_t alignment = 32; alignment <= 512 * kKiB; alignment *= 2) {
    ThreadHeaps heaps(small_arenas());
    for (std::size_t bytes = 400 * kKiB; bytes < kMiB; bytes += 10'000) {
      if (heaps.allocate(bytes, alignment) == nullptr) break;
    }
    EXPECT_LE(heaps.statistics().held_bytes, heaps.statistics().allocations * kMiB);
  }
}

TEST(ThreadHeaps, ResizesInPlaceWhereItCanAndMovesWhereItMust) {
  ThreadHeaps heaps(small_arenas());
  std::mt19937_64 random(seed());
  unsigned char* block = nullptr;
  std::size_t bytes = 0;
  for (int step = 0; step < 3000; ++step) {
    const std::size_t wanted = 1 + random() % (random() % 3 == 0 ? 100'000 : 600);
    auto* moved = static_cast<unsigned char*>(heaps.reallocate(block, wanted));
    ASSERT_NE(moved, nullptr);
    for (std::size_t i = 0; i < std::min(bytes, wanted); ++i) ASSERT_EQ(moved[i], bytes % 251);
    block = moved;
    bytes = wanted;
    std::memset(block, static_cast<int>(bytes % 251), bytes);
    ASSERT_GE(heaps.statistics().bytes_in_use, bytes);
  }
  heaps.deallocate(block);
  heaps.check_invariants();
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
}

TEST(ThreadHeaps, TouchesOnlyWhatItUsesOfAFreshArena) {
  if (kIsSanitized) GTEST_SKIP() << "shadow memory counts as resident";
  ThreadHeaps heaps;  // arenas of 64 MiB
  heaps.deallocate(heaps.allocate(1));
  const std::size_t before = os::resident_bytes();
  for (int i = 0; i < 20; ++i) {
    in_thread([&] { ASSERT_NE(heaps.allocate(60 * kMiB), nullptr); });
  }
  EXPECT_GE(heaps.statistics().held_bytes, 20 * 64 * kMiB);
  EXPECT_LT(os::resident_bytes() - before, 4 * kMiB);
}

/// Stops the first thread that maps an arena until it is told to go on.
class SlowPages final : public os::PageSource {
 public:
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override {
    if (!is_taken_.exchange(true)) {
      arrived.count_down();
      go_on.wait();
    }
    return os::PageSource::map_aligned(bytes, alignment);
  }
  std::latch arrived{1};
  std::latch go_on{1};

 private:
  std::atomic<bool> is_taken_{false};
};

TEST(ThreadHeaps, CreatesArenasWithoutALockThatOtherThreadsNeed) {
  SlowPages pages;
  ThreadHeaps heaps(small_arenas(&pages));
  std::thread slow([&] { EXPECT_NE(heaps.allocate(100), nullptr); });
  pages.arrived.wait();
  // The other thread is inside the system call; this one makes a heap and an arena meanwhile.
  EXPECT_NE(heaps.allocate(100), nullptr);
  pages.go_on.count_down();
  slow.join();
}

// --- threads -------------------------------------------------------------------------------------

TEST(ThreadHeaps, BlocksFreedByAnotherThreadReturnToTheirOwnHeap) {
  ThreadHeaps heaps(small_arenas());
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 300; ++i) blocks.push_back(heaps.allocate(16 + i * 7 % 500));
  const std::size_t mine = heaps.statistics().arenas;
  in_thread([&] {
    for (void* block : blocks) heaps.deallocate(block);
    // What this thread now allocates comes from an arena of its own.
    for (int i = 0; i < 300; ++i) {
      void* block = heaps.allocate(200);
      for (void* other : blocks) {
        ASSERT_NE(reinterpret_cast<std::uintptr_t>(block) / kMiB,
                  reinterpret_cast<std::uintptr_t>(other) / kMiB);
      }
      heaps.deallocate(block);
    }
  });
  EXPECT_EQ(heaps.statistics().arenas, mine + 1);
  EXPECT_EQ(heaps.statistics().remote_frees, 300u);
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  heaps.check_invariants();
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u) << "every block came home";
}

TEST(ThreadHeaps, AThreadThatOnlyFreesTakesNoArena) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(1000);
  in_thread([&] { heaps.deallocate(block); });
  EXPECT_EQ(heaps.statistics().arenas, 1u);
}

TEST(ThreadHeaps, AProducerAndAConsumerRunForLongInBoundedMemory) {
  ThreadHeaps::Options options = small_arenas();
  options.thread_budget_bytes = 4 * kMiB;
  ThreadHeaps heaps(options);
  constexpr int kBlocks = 100'000;
  constexpr std::size_t kRing = 256;
  std::vector<std::atomic<unsigned char*>> ring(kRing);
  std::thread consumer([&] {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      unsigned char* block;
      while ((block = ring[i % kRing].exchange(nullptr, std::memory_order_acquire)) == nullptr) {
        std::this_thread::yield();
      }
      ASSERT_EQ(block[0], i % 251);
      heaps.deallocate(block);
    }
  });
  std::mt19937_64 random(seed());
  for (std::size_t i = 0; i < kBlocks; ++i) {
    auto* block = static_cast<unsigned char*>(heaps.allocate(1 + random() % 2000));
    ASSERT_NE(block, nullptr) << "the consumer's frees did not come back in time";
    block[0] = static_cast<unsigned char>(i % 251);
    while (ring[i % kRing].load(std::memory_order_relaxed) != nullptr) std::this_thread::yield();
    ring[i % kRing].store(block, std::memory_order_release);
  }
  consumer.join();
  EXPECT_EQ(heaps.statistics().failed_allocations, 0u);
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  heaps.check_invariants();
}

TEST(ThreadHeaps, AnEndedThreadsHeapIsAdoptedWithItsBlocks) {
  ThreadHeaps heaps(small_arenas());
  unsigned char* left = nullptr;
  in_thread([&] {
    left = static_cast<unsigned char*>(heaps.allocate(5000));
    std::memset(left, 77, 5000);
  });
  in_thread([&] {
    void* block = heaps.allocate(5000);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) / kMiB,
              reinterpret_cast<std::uintptr_t>(left) / kMiB);
    EXPECT_EQ(left[4999], 77);
    heaps.deallocate(left);
    heaps.deallocate(block);
  });
  EXPECT_EQ(heaps.statistics().heaps, 1u);
  EXPECT_EQ(heaps.statistics().remote_frees, 0u) << "the adopter is the owner";
  heaps.check_invariants();
}

TEST(ThreadHeaps, TenThousandShortThreadsUseTheMemoryOfAFew) {
  ThreadHeaps heaps(small_arenas());
  const int threads = kIsSanitized ? 1000 : 10'000;
  for (int i = 0; i < threads; i += 4) {
    std::thread four[4];
    for (auto& thread : four) {
      thread = std::thread([&] {
        void* blocks[50];
        for (std::size_t b = 0; b < 50; ++b) blocks[b] = heaps.allocate(16 + b * 40);
        for (void* block : blocks) heaps.deallocate(block);
      });
    }
    for (auto& thread : four) thread.join();
  }
  EXPECT_LE(heaps.statistics().heaps, 4u);
  EXPECT_LE(heaps.statistics().arenas, 4u);
  EXPECT_EQ(heaps.statistics().allocations, static_cast<std::uint64_t>(threads) * 50);
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  heaps.check_invariants();
}

TEST(ThreadHeaps, NothingStaysInTheCacheOrOutboxOfAnEndedThread) {
  ThreadHeaps heaps(small_arenas());
  void* mine = heaps.allocate(100);
  in_thread([&] {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < 200; ++i) blocks.push_back(heaps.allocate(1 + i));
    for (void* block : blocks) heaps.deallocate(block);
    heaps.deallocate(mine);  // waits in an outbox
  });
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

TEST(ThreadHeaps, ABlockFreedByALaterExitHookOfItsThreadIsNotLost) {
  static ThreadHeaps heaps(small_arenas());
  static unsigned key;
  // A key made after ours, whose hook runs after ours.
  heaps.deallocate(heaps.allocate(1));
  ASSERT_TRUE(os::create_thread_key(key, [](void* block) {
    heaps.deallocate(heaps.allocate(64));
    heaps.deallocate(block);
  }));
  for (int i = 0; i < 20; ++i) {
    in_thread([&] { os::set_thread_value(key, heaps.allocate(64)); });
  }
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_LE(heaps.statistics().heaps, 3u);
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

// --- instances -----------------------------------------------------------------------------------

TEST(ThreadHeaps, TwoInstancesInOneThreadNeverShareAnArena) {
  os::FakePageSource first_pages;
  os::FakePageSource second_pages;
  ThreadHeaps first(small_arenas(&first_pages));
  ThreadHeaps second(small_arenas(&second_pages));
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t bytes = 16 + i * 30;
    void* a = first.allocate(bytes);
    void* b = second.allocate(bytes);
    ASSERT_TRUE(first_pages.is_mapped(a, bytes));
    ASSERT_TRUE(second_pages.is_mapped(b, bytes));
    if (i % 2 == 0) first.deallocate(a);
    if (i % 3 == 0) second.deallocate(b);
  }
  void* a = first.allocate(10);
  EXPECT_TRUE(first.owns(a));
  EXPECT_FALSE(second.owns(a));
  first.check_invariants();
  second.check_invariants();
}

TEST(ThreadHeaps, AnInstanceInTheSlotOfADeadOneStartsAfresh) {
  os::FakePageSource pages;
  for (int round = 0; round < 200; ++round) {
    ThreadHeaps heaps(small_arenas(&pages));
    void* block = heaps.allocate(100);
    ASSERT_TRUE(pages.is_mapped(block, 100));
    std::memset(block, 1, 100);
    EXPECT_EQ(heaps.statistics().allocations, 1u);
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
}

TEST(ThreadHeaps, MoreInstancesThanSlotsAreUnusableAndSaySo) {
  std::vector<std::unique_ptr<ThreadHeaps>> many;
  for (std::size_t i = 0; i < ThreadHeaps::kMaxInstances + 2; ++i) {
    many.push_back(std::make_unique<ThreadHeaps>(small_arenas()));
  }
  EXPECT_TRUE(many.front()->is_usable());
  EXPECT_FALSE(many.back()->is_usable());
  EXPECT_EQ(many.back()->allocate(1), nullptr);
  EXPECT_EQ(many.back()->reclaim_now(), 0u);
  many.clear();
  EXPECT_TRUE(ThreadHeaps(small_arenas()).is_usable());
}

TEST(ThreadHeaps, GoesAwayWhileBlocksOfEndedAndOfLivingThreadsAreStillInUse) {
  os::FakePageSource pages;
  std::barrier phase(2);
  std::thread living;
  {
    ThreadHeaps heaps(small_arenas(&pages));
    in_thread([&] { static_cast<void>(heaps.allocate(1000)); });
    in_thread([&] {
      for (int i = 0; i < 100; ++i) static_cast<void>(heaps.allocate(100));
    });
    living = std::thread([&] {
      static_cast<void>(heaps.allocate(50));
      phase.arrive_and_wait();
      phase.arrive_and_wait();  // the instance is gone, and this thread ends after it
    });
    phase.arrive_and_wait();
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
  phase.arrive_and_wait();
  living.join();
}

TEST(ThreadHeaps, ThreadsEndWhileInstancesComeAndGo) {
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::shared_ptr<ThreadHeaps> current = std::make_shared<ThreadHeaps>(small_arenas());
  std::thread changer([&] {
    for (int i = 0; i < 100; ++i) {
      auto fresh = std::make_shared<ThreadHeaps>(small_arenas());
      {
        std::lock_guard guard(mutex);
        current.swap(fresh);
      }
      std::this_thread::yield();
    }
    stop = true;
  });
  while (!stop) {
    in_thread([&] {
      std::shared_ptr<ThreadHeaps> heaps;
      {
        std::lock_guard guard(mutex);
        heaps = current;
      }
      heaps->deallocate(heaps->allocate(100));
      static_cast<void>(heaps->allocate(3000));
    });
  }
  changer.join();
}

// --- out of memory
// ---------------------------------------------------------------------------------

TEST(ThreadHeaps, SurvivesARefusalOfTheKernelAtEveryCall) {
  for (std::size_t n = 1;; ++n) {
    os::FakePageSource pages;
    ThreadHeaps heaps(small_arenas(&pages));
    pages.refuse_call(n);
    std::vector<void*> blocks;
    std::size_t refused = 0;
    for (int i = 0; i < 400; ++i) {
      void* block = heaps.allocate(10'000);
      block != nullptr ? blocks.push_back(block) : void(++refused);
    }
    heaps.check_invariants();
    for (void* block : blocks) heaps.deallocate(block);
    heaps.reclaim_now();
    heaps.check_invariants();
    if (pages.refused_calls() == 0) {
      ASSERT_GT(n, 4u) << "the loop saw every arena's creation";
      break;
    }
    EXPECT_LE(refused, 1u) << "the next request asks again";
    EXPECT_EQ(heaps.statistics().failed_allocations, refused);
    EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  }
}

TEST(ThreadHeaps, RefusesWhileTheKernelHasNothingAndWorksAfterwards) {
  os::FakePageSource pages;
  ThreadHeaps heaps(small_arenas(&pages));
  pages.refuse_from_call(1);
  EXPECT_EQ(heaps.allocate(10), nullptr);
  EXPECT_EQ(heaps.allocate(10'000), nullptr);
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
  pages.refuse_nothing();
  EXPECT_NE(heaps.allocate(10), nullptr);
  EXPECT_NE(heaps.allocate(10'000), nullptr);
  heaps.check_invariants();
}

// --- reclaiming
// ------------------------------------------------------------------------------------

TEST(ThreadHeaps, ReclaimNowReturnsFreeArenasAndThePagesInsideTheOthers) {
  os::FakePageSource pages;
  ThreadHeaps heaps(small_arenas(&pages));
  std::vector<char*> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(static_cast<char*>(heaps.allocate(100'000)));
    std::memset(blocks.back(), i, 100'000);
  }
  const std::size_t arenas = heaps.statistics().arenas;
  ASSERT_GE(arenas, 4u);
  for (std::size_t i = 1; i < blocks.size(); ++i) heaps.deallocate(blocks[i]);
  const std::size_t returned = heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().arenas, 1u);
  EXPECT_GE(returned, (arenas - 1) * kMiB + 700'000);
  EXPECT_GE(pages.decommitted_bytes(), 700'000u) << "inside the arena of the block in use";
  EXPECT_EQ(blocks[0][99'999], 0);
  EXPECT_EQ(heaps.reclaim_now(), 0u);
  heaps.check_invariants();
  heaps.deallocate(blocks[0]);
}

TEST(ThreadHeaps, NeverUnmapsAnArenaThatItsThreadStillUses) {
  ThreadHeaps heaps(small_arenas());
  std::barrier phase(2);
  std::thread owner([&] {
    // One block free in the cache, one travelling to nowhere, none live: the arena is in use.
    void* block = heaps.allocate(100);
    heaps.deallocate(block);
    phase.arrive_and_wait();
    phase.arrive_and_wait();
    void* again = heaps.allocate(100);
    EXPECT_EQ(again, block);
    std::memset(again, 1, 100);
    heaps.deallocate(again);
  });
  phase.arrive_and_wait();
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().arenas, 1u);
  phase.arrive_and_wait();
  owner.join();
  heaps.check_invariants();
}

TEST(ThreadHeaps, HasNoBackgroundThreadUnlessAskedFor) {
  ThreadHeaps heaps(small_arenas());
  heaps.deallocate(heaps.allocate(500'000));
  EXPECT_FALSE(heaps.has_reclaimer());
  EXPECT_EQ(heaps.statistics().held_bytes, kMiB);
}

TEST(ThreadHeaps, StartsItsReclaimerOnlyWhenThereIsSomethingToReturn) {
  ThreadHeaps::Options options = small_arenas();
  options.reclaims = true;
  options.reclaim_delay_ms = 1;
  ThreadHeaps heaps(options);
  EXPECT_FALSE(heaps.has_reclaimer());
  void* block = heaps.allocate(500'000);
  EXPECT_FALSE(heaps.has_reclaimer());
  heaps.deallocate(block);
  EXPECT_TRUE(heaps.has_reclaimer());
  wait_until([&] { return heaps.statistics().held_bytes == 0; });
}

TEST(ThreadHeaps, AnIdleProcessReturnsItsMemoryWithoutAnotherCall) {
  os::FakePageSource pages;
  ThreadHeaps::Options options = small_arenas(&pages);
  options.reclaims = true;
  options.reclaim_delay_ms = 2;
  ThreadHeaps heaps(options);
  void* keep = heaps.allocate(1000);
  for (int burst = 0; burst < 3; ++burst) {  // the reclaimer rests in between
    std::vector<void*> blocks;
    for (int i = 0; i < 30; ++i) blocks.push_back(heaps.allocate(100'000));
    for (void* block : blocks) heaps.deallocate(block);
    const std::size_t decommitted = pages.decommitted_bytes();
    wait_until(
        [&] { return heaps.statistics().arenas == 1 && pages.decommitted_bytes() > decommitted; });
  }
  heaps.deallocate(keep);
  wait_until([&] { return heaps.statistics().held_bytes == 0; });
}

TEST(ThreadHeaps, TheReclaimerTakesInWhatWasSentToAnIdleThread) {
  ThreadHeaps::Options options = small_arenas();
  options.reclaims = true;
  options.reclaim_delay_ms = 1;
  ThreadHeaps heaps(options);
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(heaps.allocate(40'000));
  in_thread([&] {
    for (void* block : blocks) heaps.deallocate(block);
  });
  wait_until([&] { return heaps.statistics().held_bytes == 0; });
}

TEST(ThreadHeaps, ReclaimingRacesWithAllocationAndNobodyNotices) {
  ThreadHeaps::Options options = small_arenas();
  options.reclaims = true;
  options.reclaim_delay_ms = 0;
  ThreadHeaps heaps(options);
  std::atomic<bool> stop{false};
  std::barrier gate(4);
  std::vector<std::thread> threads;
  const std::uint64_t base = seed();
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(base + t);
      std::vector<std::pair<unsigned char*, std::size_t>> slots(64);
      gate.arrive_and_wait();
      for (int i = 0; i < (kIsSanitized ? 20'000 : 60'000); ++i) {
        auto& [block, bytes] = slots[random() % slots.size()];
        if (block != nullptr) {
          ASSERT_EQ(block[0], bytes % 251);
          ASSERT_EQ(block[bytes - 1], bytes % 251);
          heaps.deallocate(block);
          block = nullptr;
          continue;
        }
        bytes = 1 + random() % (random() % 50 == 0 ? 60'000 : 1000);
        block = static_cast<unsigned char*>(heaps.allocate(bytes));
        ASSERT_NE(block, nullptr);
        std::memset(block, static_cast<int>(bytes % 251), bytes);
      }
      for (auto& [block, bytes] : slots) heaps.deallocate(block);
    });
  }
  std::thread forcer([&] {
    gate.arrive_and_wait();
    while (!stop) heaps.reclaim_now();
  });
  for (auto& thread : threads) thread.join();
  stop = true;
  forcer.join();
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

// --- statistics
// ------------------------------------------------------------------------------------

TEST(ThreadHeaps, CountsWhatHappened) {
  ThreadHeaps heaps(small_arenas());
  void* a = heaps.allocate(1000);
  void* b = heaps.allocate(100);
  const std::size_t both = heaps.usable_size(a) + heaps.usable_size(b);
  EXPECT_EQ(heaps.statistics().bytes_in_use, both);
  heaps.deallocate(a);
  in_thread([&] { heaps.deallocate(b); });
  const ThreadHeaps::Statistics now = heaps.statistics();
  EXPECT_EQ(now.allocations, 2u);
  EXPECT_EQ(now.frees, 2u);
  EXPECT_EQ(now.remote_frees, 1u);
  EXPECT_EQ(now.bytes_in_use, 0u);
  EXPECT_EQ(now.peak_bytes, both);
  EXPECT_EQ(now.held_bytes, kMiB);
  EXPECT_EQ(now.arenas, 1u);
  EXPECT_EQ(now.failed_allocations, 0u);
}

TEST(ThreadHeaps, NoSnapshotEverWrapsBelowZeroWhileBlocksChangeHands) {
  ThreadHeaps heaps(small_arenas());
  constexpr std::size_t kSlots = 64;
  std::vector<std::atomic<void*>> slots(kSlots);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  const std::uint64_t base = seed();
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(base + t);
      for (int i = 0; i < 30'000; ++i) {
        void* block = heaps.allocate(1 + random() % 500);
        heaps.deallocate(slots[random() % kSlots].exchange(block));
      }
    });
  }
  std::thread reader([&] {
    while (!stop) {
      const ThreadHeaps::Statistics now = heaps.statistics();
      ASSERT_LE(now.frees, now.allocations);
      ASSERT_LT(now.bytes_in_use, 100 * kMiB);
    }
  });
  for (auto& thread : threads) thread.join();
  stop = true;
  reader.join();
  for (auto& slot : slots) heaps.deallocate(slot.load());
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_EQ(heaps.statistics().frees, heaps.statistics().allocations);
  heaps.check_invariants();
}

// --- random
// ----------------------------------------------------------------------------------------

TEST(ThreadHeaps, AgreesWithAModelThroughRandomOperationsOfTwoThreads) {
  const std::uint64_t base = seed();
  for (std::uint64_t round = 0; round < 6; ++round) {
    ThreadHeaps::Options options = small_arenas();
    options.arena_bytes = 128 * kKiB;
    options.thread_budget_bytes = 512 * kKiB;
    ThreadHeaps heaps(options);
    std::map<unsigned char*, std::size_t> live;
    std::mutex turn;  // one operation at a time, so that the whole can be checked after each
    std::size_t in_use = 0;
    std::barrier gate(2);
    const auto work = [&](std::uint64_t thread_seed) {
      std::mt19937_64 random(thread_seed);
      gate.arrive_and_wait();
      for (int step = 0; step < 600; ++step) {
        std::lock_guard guard(turn);
        if (live.empty() || random() % 2 == 0) {
          const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 40'000 : 300);
          const std::size_t alignment = random() % 8 == 0 ? 256 : 16;
          if (auto* block = static_cast<unsigned char*>(heaps.allocate(bytes, alignment))) {
            const std::size_t usable = heaps.usable_size(block);
            const auto after = live.lower_bound(block);
            ASSERT_TRUE(after == live.end() || block + usable <= after->first);
            ASSERT_TRUE(after == live.begin() ||
                        std::prev(after)->first + std::prev(after)->second <= block);
            std::memset(block, static_cast<int>(usable % 251), usable);
            live.emplace(block, usable);
            in_use += usable;
          }
        } else {
          auto it = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
          for (std::size_t i = 0; i < it->second; ++i) ASSERT_EQ(it->first[i], it->second % 251);
          heaps.deallocate(it->first);
          in_use -= it->second;
          live.erase(it);
        }
        if (random() % 50 == 0) heaps.reclaim_now();
        heaps.check_invariants();
        ASSERT_EQ(heaps.statistics().bytes_in_use, in_use);
      }
    };
    std::thread other(work, base + 2 * round + 1);
    work(base + 2 * round);
    other.join();
  }
}

// --- misuse
// ----------------------------------------------------------------------------------------

class ThreadHeapsDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(ThreadHeapsDeathTest, DiesOfADoubleFreeOfASmallBlock) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(100);
  heaps.deallocate(block);
  EXPECT_DEATH(heaps.deallocate(block), "double free of 0x.*already free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfADoubleFreeOfALargeBlock) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(10'000);
  heaps.deallocate(block);
  EXPECT_DEATH(heaps.deallocate(block), "double free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfADoubleFreeOfABlockThatIsOnItsWayHome) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(100);
  EXPECT_DEATH(in_thread([&] {
                 heaps.deallocate(block);
                 heaps.deallocate(block);
               }),
               "double free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAPointerFromElsewhere) {
  ThreadHeaps heaps(small_arenas());
  ThreadHeaps other(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  char* others = static_cast<char*>(other.allocate(100));
  int on_stack = 0;
  EXPECT_DEATH(heaps.deallocate(&on_stack), "foreign pointer 0x.*in no arena");
  EXPECT_DEATH(heaps.deallocate(others), "foreign pointer");
  EXPECT_DEATH(heaps.deallocate(block + 8), "foreign pointer.*no block");
  EXPECT_DEATH(heaps.deallocate(block + 16), "no block starts there");
  EXPECT_DEATH(static_cast<void>(heaps.usable_size(others)), "foreign pointer");
}

TEST_F(ThreadHeapsDeathTest, DiesOfABlockOfAnArenaThatIsGone) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(10'000);
  heaps.deallocate(block);
  heaps.reclaim_now();
  EXPECT_DEATH(heaps.deallocate(block), "foreign pointer 0x.*in no arena");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAnOverwrittenTag) {
  ThreadHeaps heaps(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  block[-8] = static_cast<char>(block[-8] + 1);
  EXPECT_DEATH(heaps.deallocate(block), "overwritten tag in front of 0x");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAWriteAfterFreeIntoACachedBlock) {
  ThreadHeaps heaps(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  heaps.deallocate(block);
  block[0] = static_cast<char>(block[0] + 1);
  EXPECT_DEATH(static_cast<void>(heaps.allocate(100)), "write after free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfOptionsThatContradictThemselves) {
  ThreadHeaps::Options options;
  options.small_bins[1] = 16;
  EXPECT_DEATH(ThreadHeaps{options}, "must ascend");
  options = {};
  options.small_bins[3] = 2048;
  EXPECT_DEATH(ThreadHeaps{options}, "up to 1024");
  options = {};
  options.thread_budget_bytes = 1000;
  EXPECT_DEATH(ThreadHeaps{options}, "at least 64 KiB");
  options = {};
  options.arena_bytes = std::size_t{1} << 35;
  EXPECT_DEATH(ThreadHeaps{options}, "at most 16 GiB");
}

}  // namespace
}  // namespace strata
