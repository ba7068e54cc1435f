#include "guard/guard_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "base/memory_limit.h"
#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "guard/pattern.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"
#include "os/faults.h"

namespace strata {
namespace {

// For the fault handler, which takes no argument of ours.
GuardPool* g_pool = nullptr;

struct GuardPoolTest : SeededTest {
  GuardPoolTest() {
    EXPECT_TRUE(pool.start());
    g_pool = &pool;
  }
  ~GuardPoolTest() override { pool.check_invariants(); }

  char* get(std::size_t bytes, std::size_t alignment = 0) {
    return static_cast<char*>(pool.allocate({bytes, alignment, false}));
  }
  void put(void* p) { pool.deallocate(p, {}); }
  /// An object at the end of its slot: objects lie at the end and at the start by turns.
  char* get_at_end(std::size_t bytes) {
    char* p = get(bytes);
    return (reinterpret_cast<std::uintptr_t>(p) + bytes) % os::page_bytes() == 0 ? p : get(bytes);
  }
  char* get_at_start(std::size_t bytes) {
    char* p = get(bytes);
    return reinterpret_cast<std::uintptr_t>(p) % os::page_bytes() == 0 ? p : get(bytes);
  }

  static void put_back(char& slack) { slack = static_cast<char>(kSlackByte); }

  static void watch_faults() {
    os::install_fault_handler([](const os::Fault& fault) { return g_pool->explain(fault); });
  }

  os::FakePageSource pages;
  MemoryLimit limit;
  MetadataArena metadata{pages, &limit};
  GuardPool pool{pages, metadata, limit};
  const std::size_t page = os::page_bytes();
};

TEST_F(GuardPoolTest, ObjectsOfAnySizeAndAlignmentAreUsableAndReadAsZero) {
  for (std::size_t alignment = 1; alignment <= page; alignment *= 2) {
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{100}, page - 1, page, page + 1, 4 * page}) {
      char* p = get(bytes, alignment);
      ASSERT_NE(p, nullptr) << bytes << " aligned to " << alignment;
      EXPECT_TRUE(pool.owns(p));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % std::max<std::size_t>(alignment, 16), 0u);
      EXPECT_EQ(pool.requested_bytes(p, "realloc"), bytes);
      EXPECT_EQ(find_change(p, bytes, 0), bytes);
      std::memset(p, 1, bytes);
      put(p);
    }
  }
  EXPECT_EQ(get(4 * page + 1), nullptr);
  EXPECT_EQ(get(~std::size_t{0}), nullptr);
  EXPECT_EQ(get(16, 2 * page), nullptr);
}

TEST_F(GuardPoolTest, OwnsItsAddressesAndNoOthers) {
  int on_the_stack = 0;
  EXPECT_FALSE(pool.owns(&on_the_stack));
  EXPECT_FALSE(pool.owns(nullptr));
  EXPECT_FALSE(pool.explain({&on_the_stack, os::Fault::Access::kRead, 0}));
  GuardPool not_started(pages, metadata, limit);
  EXPECT_FALSE(not_started.owns(nullptr));
  EXPECT_FALSE(not_started.owns(get(1)));
  EXPECT_EQ(not_started.allocate({16, 0, false}), nullptr);
}

TEST_F(GuardPoolTest, OwnsNoLowAddressWhileItStartsAndEnds) {
  constexpr int kStarts = 5'000;
  constexpr GuardPool::Size kOneSlot{1, 0, SIZE_MAX, 0, 0};
  GuardPool other(pages, metadata, limit);
  std::atomic<bool> is_over{false};
  std::atomic<std::size_t> mistakes{0};
  run_together(4, [&](int i) {
    if (i != 0) {
      while (!is_over.load()) {
        if (other.owns(nullptr)) ++mistakes;
      }
      return;
    }
    for (int n = 0; n < kStarts; ++n) {
      EXPECT_TRUE(other.start(kOneSlot));
      other.discard();
    }
    is_over.store(true);
  });
  EXPECT_EQ(mistakes.load(), 0u);
}

TEST_F(GuardPoolTest, AFreedSlotWaitsForTheOthers) {
  std::set<char*> live;
  while (char* p = get(100)) ASSERT_TRUE(live.insert(p).second);
  EXPECT_EQ(live.size(), GuardPool::kForSamples.slots);
  std::deque<char*> freed(live.begin(), live.end());
  std::shuffle(freed.begin(), freed.end(), random);
  for (std::size_t i = 0; i < GuardPool::kForSamples.least_waiting; ++i) put(freed[i]);
  EXPECT_EQ(get(100), nullptr);
  put(freed[GuardPool::kForSamples.least_waiting]);
  char* again = get(100);
  ASSERT_NE(again, nullptr);
  EXPECT_LT(std::max(again, freed.front()) - std::min(again, freed.front()),
            static_cast<std::ptrdiff_t>(4 * page))
      << "the longest free is used again";
}

TEST_F(GuardPoolTest, HoldsThePagesOfLiveObjectsAndNothingElse) {
  const GuardPool::Statistics empty = pool.statistics();
  EXPECT_EQ(empty.live_bytes, 0u);
  EXPECT_EQ(pages.mapped_bytes(), empty.reserved_bytes + metadata.mapped_bytes());
  EXPECT_EQ(limit.held_bytes(), metadata.mapped_bytes());
  char* small = get(100);
  char* large = get(3 * page + 1);
  const GuardPool::Statistics two = pool.statistics();
  EXPECT_EQ(two.live_objects, 2u);
  EXPECT_EQ(two.live_bytes, 5 * page);
  EXPECT_EQ(two.allocations, 2u);
  EXPECT_EQ(limit.held_bytes(), metadata.mapped_bytes() + 5 * page);
  put(large);
  EXPECT_EQ(limit.held_bytes(), metadata.mapped_bytes() + page);
  put(small);
  const GuardPool::Statistics none = pool.statistics();
  EXPECT_EQ(none.live_objects, 0u);
  EXPECT_EQ(none.waiting_objects, 2u);
  EXPECT_EQ(none.live_bytes + none.waiting_bytes, 0u);
  EXPECT_EQ(limit.held_bytes(), metadata.mapped_bytes());
}

TEST_F(GuardPoolTest, WhatAllProgramsHaveStaysBelow256KiB) {
  MemoryLimit own_limit;
  MetadataArena own_metadata{pages, &own_limit};
  GuardPool own(pages, own_metadata, own_limit);
  ASSERT_TRUE(own.start(GuardPool::kForAllPrograms));
  std::vector<void*> live;
  while (void* p = own.allocate({100, 0, false})) live.push_back(p);
  EXPECT_GE(live.size(), 2u);
  EXPECT_LE(own.statistics().live_bytes + GuardPool::kForAllPrograms.slots * 512,
            std::size_t{192} << 10);
  own.deallocate(live.back(), {});
  EXPECT_EQ(own.allocate({page + 1, 0, false}), nullptr);
  EXPECT_NE(own.allocate({page, 0, false}), nullptr);
  own.check_invariants();
}

TEST_F(GuardPoolTest, KeepsToTheHardLimitAndLosesNoSlot) {
  limit.configure(0, metadata.mapped_bytes() + 3 * page);
  char* two_pages = get(2 * page);
  char* one_page = get(1);
  ASSERT_TRUE(two_pages != nullptr && one_page != nullptr);
  for (std::size_t i = 0; i < 2 * GuardPool::kForSamples.slots; ++i) ASSERT_EQ(get(1), nullptr);
  EXPECT_EQ(pool.statistics().live_objects, 2u);
  EXPECT_EQ(limit.statistics().refusals, 0u) << "these objects are served without guards";
  put(two_pages);
  EXPECT_NE(get(2 * page), nullptr);
}

TEST_F(GuardPoolTest, WhatTheKernelRefusesToTakeBackStaysHeldUntilTheSlotIsUsedAgain) {
  std::vector<char*> live;
  while (char* p = get(3 * page)) live.push_back(p);
  std::memset(live.back(), 1, 3 * page);
  pages.refuse_from_call(1);
  for (char* p : live) put(p);
  EXPECT_EQ(find_change(live.back(), 3 * page, 0), 3 * page) << "what was there is gone";
  const std::size_t held = live.size() * 3 * page;
  EXPECT_EQ(pool.statistics().waiting_bytes, held);
  EXPECT_EQ(pool.statistics().live_bytes, 0u);
  EXPECT_EQ(limit.held_bytes(), metadata.mapped_bytes() + held);
  EXPECT_EQ(get(1), nullptr) << "a slot is used while pages of its last object are accessible";
  pool.check_invariants();
  pages.refuse_nothing();
  char* p = get(1);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(find_change(p, 1, 0), 1u);
  EXPECT_EQ(pool.statistics().waiting_bytes, held - 3 * page);
  EXPECT_EQ(limit.held_bytes(), metadata.mapped_bytes() + held - 2 * page);
}

TEST_F(GuardPoolTest, WhatCannotBeClosedIsEmptiedAndNotHeld) {
  char* const p = get(page);
  std::memset(p, 1, page);
  pages.refuse_call(1);
  put(p);
  EXPECT_EQ(pages.refused_calls(), 1u);
  EXPECT_EQ(*p, 0) << "late accesses go on, and what was there is gone";
  EXPECT_EQ(pool.statistics().waiting_bytes, 0u);
  EXPECT_EQ(limit.held_bytes(), metadata.mapped_bytes());
  pool.check_invariants();
}

struct GuardedBlocks : GuardPoolTest {
  GuardedBlocks() {
    EXPECT_TRUE(blocks.start(GuardPool::kForBlocks));
    g_pool = &blocks;
  }
  ~GuardedBlocks() override { blocks.check_invariants(); }
  char* get_block(std::size_t bytes) { return static_cast<char*>(blocks.allocate({bytes})); }

  static constexpr std::size_t kMiB = std::size_t{1} << 20;
  MemoryLimit block_limit;
  MetadataArena block_metadata{pages, &block_limit};
  GuardPool blocks{pages, block_metadata, block_limit};
};

TEST_F(GuardedBlocks, HaveSlotsOfTheirSizeWithGuardsAsLarge) {
  char* const small = get_block(1);
  char* const large = get_block(kMiB);
  ASSERT_TRUE(small != nullptr && large != nullptr);
  EXPECT_GE(large - small, static_cast<std::ptrdiff_t>(kMiB));
  std::memset(large, 1, kMiB);
  EXPECT_EQ(get_block(kMiB + 1), nullptr);
  EXPECT_EQ(blocks.statistics().live_bytes, page + kMiB);
  blocks.deallocate(large, {});
  EXPECT_EQ(block_limit.held_bytes(), block_metadata.mapped_bytes() + page);
  blocks.deallocate(small, {});
}

TEST_F(GuardedBlocks, OfAllProgramsHoldAQuarterOfAMiBAtMost) {
  constexpr std::size_t kMost = kMiB / 4;
  GuardPool few(pages, block_metadata, block_limit);
  ASSERT_TRUE(few.start(GuardPool::kForBlocksOfAllPrograms));
  const std::size_t before = block_limit.held_bytes();
  EXPECT_EQ(few.allocate({kMost + 1}), nullptr);
  for (int i = 0; i < 10; ++i) {
    void* const largest = few.allocate({kMost});
    ASSERT_NE(largest, nullptr);
    EXPECT_EQ(few.allocate({1}), nullptr);
    EXPECT_EQ(block_limit.held_bytes(), before + kMost);
    few.deallocate(largest, {});
    EXPECT_EQ(block_limit.held_bytes(), before) << "a freed one holds nothing";
  }
  while (few.allocate({170'000}) != nullptr) continue;
  EXPECT_LE(few.statistics().live_bytes, kMost);
}

TEST_F(GuardPoolTest, RandomUse) {
  struct Object {
    char* at;
    std::size_t bytes;
    char tag;
  };
  std::vector<Object> live;
  for (int step = 0; step < 6000; ++step) {
    if (below(2) == 0) {
      const std::size_t bytes = below(4 * page + 1);
      char* p = get(bytes, std::size_t{1} << below(8));
      if (p == nullptr) continue;
      live.push_back({p, bytes, static_cast<char>(random())});
      std::memset(p, live.back().tag, bytes);
    } else if (!live.empty()) {
      std::swap(live[below(live.size())], live.back());
      const Object object = live.back();
      live.pop_back();
      ASSERT_EQ(find_change(object.at, object.bytes, static_cast<unsigned char>(object.tag)),
                object.bytes);
      put(object.at);
    }
    if (step % 100 != 0) continue;
    pool.check_invariants();
    ASSERT_EQ(limit.held_bytes() - metadata.mapped_bytes(), pool.statistics().live_bytes);
  }
}

TEST_F(GuardPoolTest, IsNullWhenTheKernelRefusesAndLosesNoSlot) {
  for (std::size_t n = 1;; ++n) {
    os::FakePageSource refusing;
    MemoryLimit no_limit;
    MetadataArena arena(refusing, &no_limit);
    GuardPool other(refusing, arena, no_limit);
    refusing.refuse_from_call(n);
    const bool is_started = other.start();
    std::vector<void*> live;
    for (int i = 0; i < 4; ++i) {
      if (void* p = other.allocate({100, 0, false})) live.push_back(p);
    }
    other.check_invariants();
    EXPECT_EQ(no_limit.held_bytes(), arena.mapped_bytes() + other.statistics().live_bytes);
    for (void* p : live) other.deallocate(p, {});
    other.check_invariants();
    const bool was_refused = refusing.refused_calls() != 0;
    refusing.refuse_nothing();
    ASSERT_TRUE(!is_started || other.allocate({100, 0, false}) != nullptr);
    if (!was_refused) break;
  }
}

TEST_F(GuardPoolTest, AStartThatIsRefusedTakesNothingAndIsTriedAgain) {
  for (std::size_t n = 1;; ++n) {
    os::FakePageSource refusing;
    MemoryLimit no_limit;
    MetadataArena arena(refusing, &no_limit);
    GuardPool other(refusing, arena, no_limit);
    refusing.refuse_call(n);
    const bool was_refused = !other.start();
    if (was_refused) {
      EXPECT_EQ(refusing.mapped_bytes(), 0u);
      ASSERT_TRUE(other.start());
    }
    refusing.refuse_nothing();
    void* const p = other.allocate({100, 0, false});
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(other.start()) << "by a thread that comes second";
    EXPECT_TRUE(other.owns(p)) << "nothing changes";
    other.deallocate(p, {});
    other.check_invariants();
    if (!was_refused) break;
  }
}

TEST_F(GuardPoolTest, ThreadsPassObjectsOn) {
  std::atomic<char*> shelves[8] = {};
  run_together(3, [&, seed = random()](std::uint64_t t) {
    std::mt19937_64 choose(seed + t);
    for (int i = 0; i < 2000; ++i) {
      char* p = get(100);
      if (p != nullptr) std::memset(p, 1, 100);
      // release and acquire: the contents go with the object.
      p = shelves[choose() % std::size(shelves)].exchange(p, std::memory_order_acq_rel);
      if (p != nullptr) put(p);
    }
  });
  for (auto& shelf : shelves) {
    if (char* p = shelf.load(std::memory_order_acquire)) put(p);
  }
}

using GuardPoolDeathTest = GuardPoolTest;

TEST_F(GuardPoolDeathTest, DiesOfAWrongFreeAndNamesWhatIsThere) {
  char* p = get(100);
  EXPECT_DEATH(put(p + 16),
               "invalid free of .* points into an object, not at its start\n.*this "
               "call by thread [0-9]+\n(.*\n)*.*allocated by thread");
  EXPECT_DEATH(pool.requested_bytes(p + 1, "realloc"), "invalid realloc of .* points into");
  EXPECT_DEATH(put(p + 8 * page * 4), "invalid free of .*: it was never allocated");
  put(p);
  EXPECT_DEATH(put(p), "double free of .*: the object is free already\n(.*\n)*.*freed by thread");
}

TEST_F(GuardPoolDeathTest, DiesOfAContradiction) {
  char* p = get(100);
  EXPECT_DEATH(pool.deallocate(p, {FreeCall::By::kDelete, 99}),
               "mismatched sized delete of .* with 100 bytes and freed with 99\n.*allocated by");
}

TEST_F(GuardPoolDeathTest, DiesAtFreeOfAWriteThatNoGuardStopped) {
  char* p = get_at_start(100);
  p[100] = 1;
  EXPECT_DEATH(put(p), "overflow of .*: the program wrote at offset 100 of this object of 100");
  char* q = get_at_end(96);
  q[-5] = 1;
  EXPECT_DEATH(put(q), "underflow of .*: the program wrote at offset -5 of this object of 96");
  p[100] = q[-5] = static_cast<char>(kSlackByte);
}

TEST_F(GuardPoolDeathTest, VerifiesLiveObjectsWhenAsked) {
  char* p = get_at_start(100);
  char* q = get_at_end(96);
  pool.verify_all();
  p[100] = 1;
  EXPECT_DEATH(pool.verify_all(), "overflow of .*: the program wrote at offset 100 of this object");
  put_back(p[100]);
  q[-5] = 1;
  EXPECT_DEATH(pool.verify_all(), "underflow of .*: the program wrote at offset -5 of this object");
  put_back(q[-5]);
  put(p);
  pool.verify_all();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they own the signal
void read_from(const char* p) { static_cast<void>(*const_cast<const volatile char*>(p)); }
void write_to(char* p) { *const_cast<volatile char*>(p) = 1; }

TEST_F(GuardPoolDeathTest, AFaultIsExplainedAndKillsByItsSignal) {
  const auto is_segv = ::testing::KilledBySignal(11);
  const std::string read = os::kRead;
  const std::string wrote = os::kWrote;
  char* p = get_at_end(96);
  char* q = get_at_start(96);
  EXPECT_EXIT((watch_faults(), read_from(p + (96))), is_segv,
              "overflow of .*: the program " + read +
                  " at offset 96 of this object of 96 bytes\n"
                  ".*accessed by thread");
  EXPECT_EXIT((watch_faults(), write_to(p + 200)), is_segv,
              "overflow of .*: the program " + wrote + " at offset 200 of");
  EXPECT_EXIT((watch_faults(), read_from(q + (-1))), is_segv,
              "underflow of .*: the program " + read + " at offset -1 of this object of 96 bytes");
  put(p);
  EXPECT_EXIT((watch_faults(), read_from(p + (3))), is_segv,
              "use after free of .*: the program " + read +
                  " at offset 3 of this object of 96 bytes\n"
                  "(.*\n)*.*allocated by thread [0-9]+\n(.*\n)*.*freed by thread");
  EXPECT_EXIT((watch_faults(), read_from(p + (5 * page * 500))), is_segv,
              "wild access to .*: no object was ever there");
}

using GuardedBlocksDeathTest = GuardedBlocks;

TEST_F(GuardedBlocksDeathTest, AnAccessFarBesideABlockIsExplained) {
  const auto is_segv = ::testing::KilledBySignal(11);
  char* const p = get_block(300'000);
  char* const q = get_block(300'000);
  EXPECT_EXIT((watch_faults(), write_to(p - 1'000'000)), is_segv,
              "underflow of .* at offset -1000000 of this object of 300000 bytes");
  EXPECT_EXIT((watch_faults(), write_to(p + 1'000'000)), is_segv,
              "overflow of .* at offset 1000000 of this object of 300000 bytes");
  EXPECT_EXIT((watch_faults(), write_to(q + 1'000'000)), is_segv,
              "overflow of .* at offset 1000000 of this object of 300000 bytes");
  blocks.deallocate(p, {});
  EXPECT_EXIT((watch_faults(), read_from(p + 299'999)), is_segv,
              "use after free of .* at offset 299999 of this object of 300000 bytes");
  EXPECT_EXIT((watch_faults(), read_from(p + kMiB)), is_segv,
              "underflow of .* of this object of 300000 bytes")
      << "between a freed block, which is nearer, and a live one";
}
#endif

}  // namespace
}  // namespace strata
