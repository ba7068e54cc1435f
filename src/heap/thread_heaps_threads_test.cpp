#include <strata/thread_heaps.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "heap/heap_directory.h"
#include "heap/heap_support_test.h"
#include "os/child_in_test.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"
#include "os/resources.h"
#include "os/threads.h"

namespace strata {
namespace {

TEST(ThreadHeaps, BlocksFreedByAnotherThreadReturnToTheirOwnHeap) {
  ThreadHeaps heaps(own_arenas());
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 300; ++i) blocks.push_back(heaps.allocate(16 + i * 7 % 500));
  const std::size_t mine = heaps.statistics().arenas;
  in_thread([&] {
    for (void* block : blocks) heaps.deallocate(block);
    // What this thread allocates now comes from an arena of its own.
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

TEST(ThreadHeaps, StatisticsSeeWholeHeapsWhileThreadsCome) {
  constexpr int kRounds = 50;
  constexpr int kThreads = 8;
  for (int round = 0; round < kRounds; ++round) {
    ThreadHeaps heaps(own_arenas());
    std::atomic<int> running{kThreads - 1};
    run_together(kThreads, [&](int t) {
      if (t != 0) {
        heaps.deallocate(heaps.allocate(100));
        running.fetch_sub(1, std::memory_order_relaxed);
        return;
      }
      while (running.load(std::memory_order_relaxed) != 0) {
        const ThreadHeaps::Statistics now = heaps.statistics();
        ASSERT_LE(now.frees, now.allocations);
      }
    });
  }
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
  std::mt19937_64 random(seed_of_this_run());
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
  ThreadHeaps heaps(own_arenas());
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
  const std::size_t bookkeeping = heap_directory::metadata().mapped_bytes();
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
  EXPECT_LE(heaps.statistics().arenas, 4 + 2 * os::processor_count()) << "a heap, and the shared";
  EXPECT_LE(heap_directory::metadata().mapped_bytes(), bookkeeping + 256 * kKiB);
  EXPECT_EQ(heaps.statistics().allocations, static_cast<std::uint64_t>(threads) * 50);
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  heaps.check_invariants();
}

TEST(ThreadHeaps, ThreadsThatComeAndGoFreeEachOthersBlocksWhileTheirHeapsAreAdopted) {
  ThreadHeaps::Options options = own_arenas();
  options.reclaims = true;
  options.reclaim_delay_ms = 0;
  ThreadHeaps heaps(options);
  std::vector<std::atomic<unsigned char*>> slots(128);
  const std::uint64_t base = seed_of_this_run();
  std::barrier all_have_heaps(3);
  const auto short_thread = [&](std::uint64_t number) {
    std::mt19937_64 random(base + number);
    heaps.deallocate(heaps.allocate(1));
    all_have_heaps.arrive_and_wait();
    for (int i = 0; i < 300; ++i) {
      const std::size_t bytes = 2 + random() % (random() % 10 == 0 ? 5000 : 300);
      auto* block = static_cast<unsigned char*>(heaps.allocate(bytes));
      ASSERT_NE(block, nullptr);
      block[0] = static_cast<unsigned char>(bytes % 251);
      block[1] = static_cast<unsigned char>(block[0] ^ 0x5a);
      unsigned char* old =
          slots[random() % slots.size()].exchange(block, std::memory_order_acq_rel);
      if (old == nullptr) continue;
      ASSERT_EQ(old[1], old[0] ^ 0x5a);
      heaps.deallocate(old);
    }
  };
  run_together(3, [&](int starter) {
    for (int i = 0; i < (kIsSanitized ? 40 : 200); ++i)
      in_thread([&] { short_thread(static_cast<std::uint64_t>(starter * 1000 + i)); });
  });
  EXPECT_EQ(heaps.statistics().heaps, 3u);
  EXPECT_GT(heaps.statistics().remote_frees, 0u);
  for (auto& slot : slots) heaps.deallocate(slot.load());
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_EQ(heaps.statistics().frees, heaps.statistics().allocations);
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

TEST(ThreadHeaps, NothingStaysInTheCacheOrOutboxOfAnEndedThread) {
  ThreadHeaps heaps(own_arenas());
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
  // The key is made after the library's, so its hook runs after the library's hook.
  heaps.deallocate(heaps.allocate(1));
  ASSERT_TRUE(os::create_thread_key(key, [](void* block) {
    heaps.deallocate(heaps.allocate(64));
    heaps.deallocate(block);
  }));
  for (int i = 0; i < 20; ++i) {
    in_thread([&] { EXPECT_TRUE(os::set_thread_value(key, heaps.allocate(64))); });
  }
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_LE(heaps.statistics().heaps, 3u);
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

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
  EXPECT_GE(returned, 39 * 100'000u - 2 * os::page_bytes()) << "all but the block in use";
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
    // One block is free in the cache, one is travelling, none is live: the arena is still in use.
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

/// The threads of this process, as the kernel counts them: a joined thread may be included for a
/// moment.
int threads_now() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                        std::filesystem::directory_iterator()));
}

TEST(ThreadHeaps, OnlyAReclaimingInstanceHasAThreadAndItGoesWithTheInstance) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator has threads of its own";
  in_thread([] {});  // a sanitizer has started its own by now
  const int before = threads_now();
  const auto use = [](ThreadHeaps& heaps) {
    void* blocks[20];
    for (void*& block : blocks) block = heaps.allocate(100'000);
    for (void* block : blocks) heaps.deallocate(block);
    heaps.reclaim_now();
  };
  {
    ThreadHeaps heaps(small_arenas());
    use(heaps);
    EXPECT_LE(threads_now(), before);
  }
  {
    ThreadHeaps::Options options = small_arenas();
    options.reclaims = true;
    ThreadHeaps heaps(options);
    EXPECT_LE(threads_now(), before);
    use(heaps);
    EXPECT_TRUE(heaps.has_reclaimer());
  }
  wait_until([&] { return threads_now() <= before; });
}

TEST(ThreadHeaps, TheChildOfAForkDestroysAnInstanceThoughItsReclaimerIsNotThere) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's own locks stay locked in the child";
  ThreadHeaps::Options options = small_arenas();
  options.reclaims = true;
  std::optional<ThreadHeaps> heaps(options);
  heaps->deallocate(heaps->allocate(500'000));
  ASSERT_TRUE(heaps->has_reclaimer());
  const int status = os::status_in_child([&] {
    alarm(60);  // a child that waits for ever ends, too
    *heaps = ThreadHeaps(small_arenas());
    heaps.reset();
    return 0;
  });
  EXPECT_EQ(status, 0);
  heaps->deallocate(heaps->allocate(500'000));
  heaps->check_invariants();
}

TEST(ThreadHeaps, TheChildOfAForkEndsWithItsThreadThoughItsReclaimerSleeps) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's own locks stay locked in the child";
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer lets no thread start in the child";
  ThreadHeaps::Options options = small_arenas();
  options.reclaims = true;
  options.reclaim_delay_ms = 600'000;
  ThreadHeaps heaps(options);
  pid_t child = -1;
  in_thread([&] {
    heaps.deallocate(heaps.allocate(500'000));
    wait_until([&] { return heaps.has_reclaimer() && threads_now() >= 3; });
    usleep(100'000);  // it has begun
    child = fork();
    if (child != 0) return;
    static auto* const own = new ThreadHeaps(options);  // it stays: its reclaimer sleeps
    own->deallocate(own->allocate(500'000));
    if (!own->has_reclaimer()) _exit(1);
  });
  ASSERT_NE(child, -1);
  // alarm() would not do: the child's reclaimer blocks all signals but this one.
  int status = 0;
  pid_t ended = 0;
  for (int tenths = 0; ended == 0 && tenths < 3000; ++tenths) {
    usleep(100'000);
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  EXPECT_EQ(status, 0);
}

/// The first thread that returns memory stops at the gate.
struct SlowReturns final : os::PageSource, Gate {
  bool decommit(void* address, std::size_t bytes) noexcept override {
    pass();
    return os::PageSource::decommit(address, bytes);
  }
};

/// One instance, and a thread that is about to end and return what it freed.
struct ThreadThatEnds : ::testing::Test {
  ThreadThatEnds() { pages.arrived.wait(); }
  ~ThreadThatEnds() override {
    if (!pages.go_on.try_wait()) pages.go_on.count_down();
    thread.join();
  }
  void expect_success_of(pid_t child) {
    ASSERT_NE(child, -1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }

  SlowReturns pages;
  std::optional<ThreadHeaps> heaps{own_arenas(&pages)};
  std::thread thread{[this] {
    void* block = heaps->allocate(500'000);
    std::memset(block, 1, 500'000);
    heaps->deallocate(block);
  }};
};

TEST_F(ThreadThatEnds, KeepsNoOtherInstanceWaiting) {
  ThreadHeaps other(small_arenas());
  in_thread([&] { other.deallocate(other.allocate(100)); });
}

TEST_F(ThreadThatEnds, MayDoSoBesideItsInstance) {
  pages.go_on.count_down();
  heaps.reset();
}

TEST_F(ThreadThatEnds, LetsTheChildOfAForkHaveInstancesOfItsOwn) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's own locks stay locked in the child";
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a child that waits for ever ends, too
    {
      ThreadHeaps own(small_arenas());
      own.deallocate(own.allocate(500'000));
      // Under a sanitizer no thread can start there.
      if (!kIsSanitized) in_thread([&] { own.deallocate(own.allocate(100)); });
      own.check_invariants();
    }
    heaps.reset();
    _exit(0);
  }
  expect_success_of(child);
}

TEST_F(ThreadThatEnds, LetsAThreadThatForksEndInTheChild) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's own locks stay locked in the child";
  static unsigned key;  // its hook runs after ours
  ASSERT_TRUE(os::create_thread_key(key, [](void*) { _exit(0); }));
  pid_t child = -1;
  in_thread([&] {
    heaps->deallocate(heaps->allocate(100));
    child = fork();
    if (child != 0) return;
    alarm(60);
    os::set_thread_value(key, &key);
  });
  expect_success_of(child);
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
  EXPECT_TRUE(heaps.has_reclaimer() || heaps.statistics().held_bytes == 0);
  wait_until([&] { return heaps.statistics().held_bytes == 0; });
}

TEST(ThreadHeaps, ItsReclaimerEndsWhenNothingIsLeftAndStartsAgain) {
  ThreadHeaps::Options options = small_arenas();
  options.reclaims = true;
  options.reclaim_delay_ms = 1;
  ThreadHeaps heaps(options);
  for (int burst = 0; burst < 20; ++burst) {
    heaps.deallocate(heaps.allocate(500'000));
    wait_until([&] { return heaps.statistics().held_bytes == 0 && !heaps.has_reclaimer(); });
  }
}

TEST(ThreadHeaps, AnIdleProcessReturnsItsMemoryWithoutAnotherCall) {
  os::FakePageSource pages;
  ThreadHeaps::Options options = small_arenas(&pages);
  options.reclaims = true;
  options.reclaim_delay_ms = 2;
  ThreadHeaps heaps(options);
  void* keep = heaps.allocate(100'000);
  for (int burst = 0; burst < 3; ++burst) {  // the reclaimer ends in between
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
  const std::uint64_t base = seed_of_this_run();
  const auto use = [&](int t) {
    std::mt19937_64 random(base + static_cast<std::uint64_t>(t));
    std::vector<std::pair<unsigned char*, std::size_t>> slots(64);
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
  };
  run_together(3, use, [&] { heaps.reclaim_now(); });
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

TEST(ThreadHeaps, AgreesWithAModelThroughRandomOperationsOfTwoThreads) {
  const std::uint64_t base = seed_of_this_run();
  for (std::uint64_t round = 0; round < 6; ++round) {
    ThreadHeaps::Options options = small_arenas();
    options.arena_bytes = 128 * kKiB;
    // In every second round the larger blocks lie in heaps that the two threads share.
    auto& budget = round % 2 == 0 ? options.thread_budget_bytes : options.total_budget_bytes;
    budget = 512 * kKiB;
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
    // Neither thread ends, and empties its cache, while the other still uses it.
    std::thread other([&] {
      work(base + 2 * round + 1);
      gate.arrive_and_wait();
    });
    work(base + 2 * round);
    gate.arrive_and_wait();
    other.join();
  }
}

}  // namespace
}  // namespace strata
