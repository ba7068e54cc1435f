#include <strata/bitmap_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "pool/bitmap_pool_other_unit.h"

namespace strata {
namespace {

/// The steps of this thread's running operation, and the most that any operation took.
struct CountedSteps {
  static inline thread_local std::size_t loads = 0;
  static inline thread_local std::size_t rmws = 0;
  static void load() { ++loads; }
  static void rmw() { ++rmws; }
};
struct CountedPolicy {
  using Starts = detail::ThreadStarts;
  using Steps = CountedSteps;
};

struct CountedLowestFirst {
  using Starts = LowestFreeFirst::Starts;
  using Steps = CountedSteps;
};

struct Worst {
  std::size_t loads = 0;
  std::size_t rmws = 0;
  void note() {
    loads = std::max(loads, CountedSteps::loads);
    rmws = std::max(rmws, CountedSteps::rmws);
  }
  void operator|=(const Worst& other) {
    loads = std::max(loads, other.loads);
    rmws = std::max(rmws, other.rmws);
  }
};

/// A shared pool in which every block has two stamps of its owner: one beside the pool, one inside
/// the block. The stamp inside is not atomic, so ThreadSanitizer reports a block that changes hands
/// unordered.
template <class Pool>
class Torture {
 public:
  Torture(unsigned threads, std::size_t hold) : threads_(threads), hold_(hold), gate_(threads) {
    for (auto& owner : owners_) owner.store(0, std::memory_order_relaxed);
  }

  void run(int operations) {
    run_together(static_cast<int>(threads_),
                 [&](int thread) { work(static_cast<unsigned>(thread) + 1, operations); });
    for (auto& slot : mailbox_) {
      if (void* p = slot.exchange(nullptr)) {
        EXPECT_TRUE(pool_.deallocate(p));
      }
    }
    EXPECT_EQ(pool_.in_use(), 0u) << "blocks were lost";
    EXPECT_EQ(pool_.broken_invariant(), nullptr);
    EXPECT_EQ(double_handouts_.load(), 0u);
    EXPECT_EQ(refused_.load(), 0u) << "a right free was refused";
    std::vector<void*> all(pool_.capacity() + 1);
    EXPECT_EQ(pool_.allocate_batch(all.data(), all.size()), pool_.capacity());
  }

  std::size_t nulls() const { return nulls_.load(); }
  Worst worst_allocate, worst_deallocate;

 private:
  static constexpr std::uint32_t kInMailbox = 0xffffffff;

  void take(void* p, std::uint32_t id) {
    if (owners_[pool_.index_of(p)].exchange(id, std::memory_order_relaxed) != 0) ++double_handouts_;
    std::memset(p, static_cast<int>(id), pool_.block_bytes());
  }
  void let_go(void* p, std::uint32_t id) {
    if (owners_[pool_.index_of(p)].exchange(0, std::memory_order_relaxed) != id) ++double_handouts_;
    if (*static_cast<unsigned char*>(p) != static_cast<unsigned char>(id)) ++double_handouts_;
  }

  void work(std::uint32_t id, int operations) {
    std::mt19937 random(id);
    std::vector<void*> held;
    Worst allocate, deallocate;
    void* batch[8];
    gate_.arrive_and_wait();
    for (int i = 0; i < operations; ++i) {
      CountedSteps::loads = CountedSteps::rmws = 0;
      if (held.size() < hold_ && random() % 2 == 0) {
        const std::size_t count = 1 + random() % 8;
        if (random() % 4 == 0 && held.size() + count <= hold_) {
          const std::size_t got = pool_.allocate_batch(batch, count);
          if (got < count) ++nulls_;
          for (std::size_t k = 0; k < got; ++k) {
            take(batch[k], id);
            held.push_back(batch[k]);
          }
        } else if (void* p = pool_.allocate()) {
          allocate.note();
          take(p, id);
          held.push_back(p);
        } else {
          allocate.note();
          ++nulls_;
        }
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        void* p = held.back();
        held.pop_back();
        let_go(p, id);
        if (random() % 4 == 0) {  // somebody else frees it, through a mailbox
          p = mailbox_[random() % std::size(mailbox_)].exchange(p, std::memory_order_acq_rel);
          if (p == nullptr) continue;
        }
        CountedSteps::loads = CountedSteps::rmws = 0;
        if (!pool_.deallocate(p)) ++refused_;
        deallocate.note();
      }
    }
    for (void* p : held) {
      let_go(p, id);
      if (!pool_.deallocate(p)) ++refused_;
    }
    gate_.arrive_and_wait();
    for (unsigned turn = 1; turn <= threads_; ++turn) {
      if (turn == id) {
        worst_allocate |= allocate;
        worst_deallocate |= deallocate;
      }
      gate_.arrive_and_wait();
    }
  }

  unsigned threads_;
  std::size_t hold_;
  std::barrier<> gate_;
  Pool pool_;
  std::atomic<std::uint32_t> owners_[Pool::kGeometry.capacity];
  std::atomic<void*> mailbox_[4] = {};
  std::atomic<std::size_t> nulls_{0}, double_handouts_{0}, refused_{0};
};

/// All counts above the number of cores are of interest: then threads are preempted in the middle
/// of a step.
std::vector<unsigned> thread_counts() {
  const unsigned cores = std::max(2u, std::thread::hardware_concurrency());
  std::vector<unsigned> counts = {1, 2};
  for (unsigned count = cores + 1; count <= cores + 4; ++count) counts.push_back(count);
  counts.push_back(4 * cores);
  return counts;
}

template <class Pool>
void torture(std::size_t share_percent, int operations) {
  constexpr auto& geometry = Pool::kGeometry;
  for (const unsigned threads : thread_counts()) {
    const std::size_t mailbox = 4;
    const std::size_t hold =
        std::max<std::size_t>(1, (geometry.capacity * share_percent / 100 - mailbox) / threads);
    auto test = std::make_unique<Torture<Pool>>(threads, hold);
    test->run(operations);
    if (share_percent <= 50) {
      EXPECT_EQ(test->nulls(), 0u)
          << "nullptr although half of the blocks were free, " << threads << " threads";
    }
    EXPECT_LE(test->worst_allocate.loads, geometry.max_allocate_loads());
    EXPECT_LE(test->worst_allocate.rmws, geometry.max_allocate_rmws());
    EXPECT_LE(test->worst_deallocate.loads, geometry.max_deallocate_loads());
    EXPECT_LE(test->worst_deallocate.rmws, geometry.max_deallocate_rmws());
    std::printf(
        "%6zu blocks %3u threads %3zu%%: most steps of an allocate %zu loads %zu rmws (bound"
        " %zu, %zu), of a deallocate %zu, %zu (%zu, %zu)\n",
        geometry.capacity, threads, share_percent, test->worst_allocate.loads,
        test->worst_allocate.rmws, geometry.max_allocate_loads(), geometry.max_allocate_rmws(),
        test->worst_deallocate.loads, test->worst_deallocate.rmws, geometry.max_deallocate_loads(),
        geometry.max_deallocate_rmws());
  }
}

TEST(BitmapPoolThreads, OneWordStaysRightWhenAllThreadsFightForIt) {
  torture<BitmapPool<16, 64, 0, 1, CountedPolicy>>(100, 20000);
}
TEST(BitmapPoolThreads, DefaultPoolIsNeverEmptyWhileHalfOfItIsFree) {
  torture<BitmapPool<64, 64, 0, 8, CountedPolicy>>(50, 20000);
}
TEST(BitmapPoolThreads, DefaultPoolStaysRightAtTheBrink) {
  torture<BitmapPool<64, 64, 0, 8, CountedPolicy>>(110, 20000);
}
TEST(BitmapPoolThreads, OneLevelOfMarkersStaysRightAtTheBrink) {
  torture<BitmapPool<8, 40, 8, 40, CountedPolicy>>(110, 20000);
}
TEST(BitmapPoolThreads, TwoLevelsOfMarkersStayRightAtTheBrink) {
  torture<BitmapPool<8, 520, 8, 520, CountedPolicy>>(110, 20000);
}
TEST(BitmapPoolThreads, TwoLevelsOfMarkersAreNeverEmptyWhileHalfIsFree) {
  torture<BitmapPool<8, 520, 8, 520, CountedPolicy>>(50, 20000);
}
TEST(BitmapPoolThreads, LowestFirstStaysRightWhereAllThreadsMeet) {
  torture<BitmapPool<64, 64, 0, 8, CountedLowestFirst>>(110, 5000);
  torture<BitmapPool<8, 520, 8, 520, CountedLowestFirst>>(110, 5000);
}
TEST(BitmapPoolThreads, ManyBlocksStayRight) {
  torture<BitmapPool<24, 4096, 0, 8, CountedPolicy>>(90, 20000);
}

TEST(BitmapPoolThreads, OfManyThreadsThatFreeABlockExactlyOneIsBelieved) {
  BitmapPool<64, 64> pool;
  constexpr int kRounds = 500;
  constexpr int kThreads = 4;
  std::atomic<int> accepted{0};
  std::barrier gate(kThreads);
  void* block = nullptr;
  run_together(kThreads, [&](int id) {
    for (int round = 0; round < kRounds; ++round) {
      if (id == 0) block = pool.allocate();
      gate.arrive_and_wait();
      const bool in_batch = (round + id) % 2 == 0;
      accepted += in_batch ? static_cast<int>(pool.deallocate_batch(&block, 1))
                           : static_cast<int>(pool.deallocate(block));
      gate.arrive_and_wait();
    }
  });
  EXPECT_EQ(accepted.load(), kRounds);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BitmapPoolThreads, AThreadStartsAtOnePlaceInAllPoolsAndAnotherThreadElsewhere) {
  static constexpr std::size_t kLeaves = 1 << 16;
  static constexpr std::size_t kPools = 20;  // more than a thread remembers
  const auto starts = [] {
    static const char pools[64 * kPools] = {};
    std::set<std::size_t> leaves;
    for (std::size_t i = 0; i < kPools; ++i)
      leaves.insert(detail::ThreadStarts::cursor(pools + 64 * i, kLeaves, 0).leaf());
    return leaves;
  };
  const std::set<std::size_t> here = starts();
  EXPECT_EQ(here.size(), 1u);
  std::set<std::size_t> there;
  std::thread([&] { there = starts(); }).join();
  EXPECT_EQ(there.size(), 1u);
  EXPECT_NE(here, there);
}

TEST(BitmapPoolThreads, TwoTranslationUnitsShareOnePool) {
  void* p = allocate_in_other_unit();
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(shared_pool.in_use(), 1u);
  EXPECT_TRUE(shared_pool.deallocate(p));
  p = shared_pool.allocate();
  EXPECT_TRUE(deallocate_in_other_unit(p));
  EXPECT_EQ(shared_pool.in_use(), 0u);
}

}  // namespace
}  // namespace strata
