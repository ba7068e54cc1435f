// Taking over the objects in another thread's cache while that thread runs on.

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "os/threads.h"
#include "thread_cache/fake_thread.h"

namespace strata {
namespace {

struct World : FakeProcess {
  ThreadCache cache{*central, budget, space.metadata};
  std::vector<void*> room = std::vector<void*>(2048);

  std::size_t take_over(ThreadCache::Owners which, std::size_t slots = 2048) {
    return cache.take_over(which, room.data(), slots, os::barrier_in_all_threads);
  }
  /// Fills the cache with so many objects of the class, all of which were handed out before.
  void hold(unsigned size_class, std::size_t count) {
    std::vector<void*> objects;
    while (cache.count_objects(size_class) != 0 || objects.size() < count)
      objects.push_back(allocate_from(cache, size_class));
    while (cache.count_objects(size_class) < count) {
      deallocate_into(cache, size_class, objects.back());
      objects.pop_back();
    }
    live.insert(objects.begin(), objects.end());
  }
  std::set<void*> live;
};

class TakeOver : public ::testing::Test, protected World {
 protected:
  void SetUp() override {
    if (!os::barrier_in_all_threads()) GTEST_SKIP() << "this kernel has no such barrier";
  }
  std::size_t claimed(unsigned size_class) {
    const Central::ClassStatistics now = central->statistics(size_class);
    return now.spans.claimed_objects - now.in_transfer;
  }
};

constexpr auto kAll = ThreadCache::Owners::kAll;
constexpr auto kIdle = ThreadCache::Owners::kIdle;
constexpr unsigned kSmall = 9;
constexpr unsigned kLarge = SizeClassMap::class_of(40 * 1024);
static_assert(!ObjectBins::is_exchanged(kLarge - 1) && ObjectBins::is_exchanged(kLarge));

TEST_F(TakeOver, LeavesTheLatestObjectOfEachBin) {
  for (unsigned c : {1u, 7u, 20u}) hold(c, 5);
  const std::size_t before = held_bytes(cache);
  const std::size_t left =
      SizeClassMap::bytes_of(1) + SizeClassMap::bytes_of(7) + SizeClassMap::bytes_of(20);
  EXPECT_EQ(take_over(kAll), before - left);
  EXPECT_EQ(held_bytes(cache), left);
  for (unsigned c : {1u, 7u, 20u}) EXPECT_EQ(cache.count_objects(c), 1u);
  EXPECT_EQ(take_over(kAll), 0u);
}

TEST_F(TakeOver, LeavesNoLargeObject) {
  hold(kLarge - 1, 2);
  hold(kLarge, 2);
  const std::size_t before = held_bytes(cache);
  const std::size_t left = SizeClassMap::bytes_of(kLarge - 1);
  EXPECT_EQ(take_over(kAll), before - left);
  EXPECT_EQ(held_bytes(cache), left);
  EXPECT_EQ(take_over(kAll), 0u);
}

TEST_F(TakeOver, TheOwnerGoesOnWithoutItsLargeObjects) {
  hold(kLarge, 2);
  ASSERT_NE(take_over(kAll), 0u);
  EXPECT_EQ(cache.pop(kLarge), nullptr);
  void* const latest = *live.begin();
  ASSERT_TRUE(cache.push(kLarge, latest));
  EXPECT_EQ(cache.pop(kLarge), latest);
  for (int i = 0; i < 5; ++i) {
    void* const object = allocate_from(cache, kLarge);
    ASSERT_NE(object, nullptr);
    EXPECT_TRUE(live.insert(object).second) << "handed out twice";
  }
  cache.flush_all();
  EXPECT_EQ(claimed(kLarge), live.size());
}

TEST_F(TakeOver, TheOwnerGoesOnOverTheGaps) {
  hold(3, 6);
  void* latest = cache.pop(3);
  ASSERT_TRUE(cache.push(3, latest));
  ASSERT_NE(take_over(kAll), 0u);
  EXPECT_EQ(cache.pop(3), latest);
  EXPECT_EQ(cache.pop(3), nullptr) << "a gap is an empty bin";
  std::set<void*> served{latest};
  for (int i = 0; i < 20; ++i) {
    void* object = allocate_from(cache, 3);
    ASSERT_NE(object, nullptr);
    EXPECT_TRUE(served.insert(object).second) << "handed out twice";
    EXPECT_EQ(live.count(object), 0u);
  }
  for (void* object : served) deallocate_into(cache, 3, object);
  cache.flush_all();
  EXPECT_EQ(claimed(3), live.size());
}

TEST_F(TakeOver, PushesOnTopOfGapsAreFlushedWithoutThem) {
  hold(3, 6);
  ASSERT_NE(take_over(kAll), 0u);
  for (int i = 0; i < 600 && !live.empty(); ++i) {
    deallocate_into(cache, 3, *live.begin());
    live.erase(live.begin());
  }
  cache.flush_all();
  EXPECT_EQ(claimed(3), live.size());
  EXPECT_EQ(held_bytes(cache), 0u);
}

TEST_F(TakeOver, OnlyACacheThatWasLeftAloneIsIdle) {
  hold(3, 6);
  EXPECT_EQ(take_over(kIdle), 0u) << "seen for the first time";
  void* object = cache.pop(3);
  EXPECT_EQ(take_over(kIdle), 0u) << "used since";
  ASSERT_TRUE(cache.push(3, object));
  EXPECT_EQ(take_over(kIdle), 0u) << "used since";
  EXPECT_NE(take_over(kIdle), 0u);
  EXPECT_EQ(cache.count_objects(3), 1u);
  EXPECT_EQ(take_over(kIdle), 0u) << "nothing is left to take";
}

TEST_F(TakeOver, ACacheIsIdleWhileItIsTakenInParts) {
  hold(3, 7);
  hold(kLarge, 2);
  EXPECT_EQ(take_over(kIdle), 0u) << "seen for the first time";
  EXPECT_NE(take_over(kIdle, 6), 0u);
  EXPECT_NE(take_over(kIdle, 6), 0u);
  EXPECT_EQ(cache.count_objects(3), 1u);
  EXPECT_EQ(cache.count_objects(kLarge), 0u);
}

TEST_F(TakeOver, MoreThanTheRoomHoldsIsTakenInParts) {
  for (unsigned c = 1; c < 10; ++c) hold(c, 7);
  std::size_t calls = 0;
  while (take_over(kAll, 13) != 0) ++calls;
  EXPECT_EQ(calls, 5u) << "two bins a call";
  for (unsigned c = 1; c < 10; ++c) EXPECT_EQ(cache.count_objects(c), 1u);
}

/// A cache whose owner can be stopped between the two steps of a push or a pop.
class SteppedCache : public ThreadCache {
 public:
  using ThreadCache::ThreadCache;

  /// A step of the owner's hot path. If a pop finds nothing, the owner is blocked in its slow path.
  /// The pop of a large object takes a step more: it looks at the slot, then exchanges it.
  enum class State { kReady, kPopping, kPopped, kPushing, kBlocked };

  void step(unsigned c, std::size_t choice) {
    switch (state) {
      case State::kReady:
        if (choice % 2 == 0 && !owned.empty() && tops_[c] != limits_[c]) {
          moving = *owned.begin();
          owned.erase(owned.begin());
          tops_[c][1] = moving;
          state = State::kPushing;
        } else {
          moving = *tops_[c];
          state = moving == nullptr ? State::kBlocked
                  : is_exchanged(c) ? State::kPopping
                                    : State::kPopped;
        }
        break;
      case State::kPushing:
        set_top(c, tops_[c] + 1);
        state = State::kReady;
        break;
      case State::kPopping:
        moving = std::exchange(*tops_[c], nullptr);
        state = moving != nullptr ? State::kPopped : State::kBlocked;
        break;
      case State::kPopped:
        set_top(c, tops_[c] - 1);
        ASSERT_TRUE(owned.insert(moving).second) << "popped what the program has";
        state = State::kReady;
        break;
      case State::kBlocked:
        break;
    }
  }

  State state = State::kReady;
  void* moving = nullptr;
  std::set<void*> owned;  // by the program
};

/// Whenever the thief waits for a barrier, the owner runs on for a few steps. It is stopped in the
/// middle of a push or a pop about half of the time. Afterwards every object is in one place.
class TakeOverSteps : public SeededTest, public FakeProcess {
 public:
  static TakeOverSteps* g_playing;

  bool play() {
    for (std::size_t n = below(12); n != 0; --n) cache.step(size_class, below(64) / bias);
    return true;
  }
  void finish_step() {
    using State = SteppedCache::State;
    while (cache.state != State::kReady && cache.state != State::kBlocked)
      cache.step(size_class, 0);
    if (cache.state != State::kBlocked) return;
    void* object = cache.refill_and_pop(size_class);
    ASSERT_NE(object, nullptr);
    ASSERT_TRUE(cache.owned.insert(object).second) << "handed out what the program has";
    cache.state = State::kReady;
  }
  /// The program allocates some objects and frees some, so that the bin holds some, but not many.
  void fill() {
    while (cache.owned.size() < 20) {
      void* object = nullptr;
      ASSERT_EQ(central->claim(size_class, &object + 1, 1), 1u);
      ASSERT_TRUE(cache.owned.insert(object).second) << "handed out what the program has";
    }
    for (std::size_t n = below(12); n != 0; --n) {
      void* object = *cache.owned.begin();
      cache.owned.erase(cache.owned.begin());
      deallocate_into(cache, size_class, object);
    }
  }
  void check() {
    const Central::ClassStatistics now = central->statistics(size_class);
    ASSERT_EQ(now.spans.claimed_objects - now.in_transfer,
              cache.count_objects(size_class) + cache.owned.size());
  }

  /// Takes over everything, again and again.
  /// \param barrier  plays
  /// \returns        bytes taken
  std::size_t take_over_often(unsigned of_class, int rounds, ThreadCache::Barrier barrier) {
    size_class = of_class;
    g_playing = this;
    std::vector<void*> room(1024);  // a full bin
    std::size_t moved = 0;
    for (int round = 0; round < rounds && !HasFailure(); ++round) {
      bias = 1 + below(3);
      barriers = 0;
      refused = 1 + round % 3;
      fill();
      for (std::size_t n = below(6); n != 0; --n) {
        cache.step(size_class, below(64));
        if (cache.state == SteppedCache::State::kBlocked) finish_step();
      }
      moved += cache.take_over(kAll, room.data(), room.size(), barrier);
      finish_step();
      check();
      check_what_others_get();
    }
    for (void* object : cache.owned) deallocate_into(cache, size_class, object);
    cache.flush_all();
    central->release_all();
    central->check_invariants();
    EXPECT_EQ(used_pages(), 0u) << "an object was lost";
    return moved;
  }
  /// Others must not get an object that the program has.
  void check_what_others_get() {
    void* other = nullptr;
    ASSERT_EQ(central->claim(size_class, &other + 1, 1), 1u);
    ASSERT_EQ(cache.owned.count(other), 0u) << "somebody else got what the program has";
    Central::Place place(*central);
    central->release(place, size_class, &other, 1);
    check();
  }

  static bool runs_on() { return g_playing->play(); }
  static bool runs_on_and_refuses_one() {
    return g_playing->play() && ++g_playing->barriers != g_playing->refused;
  }

  SteppedCache cache{*central, budget, space.metadata};
  unsigned size_class = 0;
  std::size_t bias = 1;
  int barriers = 0;  // of this take-over
  int refused = 0;   // which of them
};
TakeOverSteps* TakeOverSteps::g_playing = nullptr;

TEST_F(TakeOverSteps, TheOwnerMayBeInTheMiddleOfAnything) {
  EXPECT_GT(take_over_often(kSmall, 20'000, runs_on), 1'000'000u);
}

TEST_F(TakeOverSteps, TheOwnerMayBeInTheMiddleOfAnythingWithLargeObjects) {
  EXPECT_GT(take_over_often(kLarge, 20'000, runs_on), 1'000'000'000u);
}

TEST_F(TakeOverSteps, WhereABarrierIsRefusedAllGoesBack) {
  EXPECT_EQ(take_over_often(kSmall, 3000, runs_on_and_refuses_one), 0u);
}

/// What the thief has by then is its own; that goes to the spans.
TEST_F(TakeOverSteps, WhereABarrierIsRefusedNoLargeObjectIsLost) {
  EXPECT_GT(take_over_often(kLarge, 3000, runs_on_and_refuses_one), 0u);
}

/// Owners use their caches as fast as they can while a thief takes over everything, again and
/// again. Each object carries its owner's mark, so a second owner, or a lost object, shows.
TEST(TakeOverThreads, NoObjectIsLostOrHandedOutTwice) {
  if (!os::barrier_in_all_threads()) GTEST_SKIP() << "this kernel has no such barrier";
  FakeProcess process;
  ThreadRegistry registry(*process.central, process.space.heap, process.space.metadata,
                          std::size_t{32} << 20);
  constexpr int kOwners = 3;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kSteps = 60'000;
#else
  constexpr int kSteps = 1'000'000;
#endif
  std::latch gate(kOwners + 1);
  std::atomic<int> running{kOwners};
  std::atomic<int> clashes{0};
  std::atomic<std::size_t> moved{0};
  std::vector<std::thread> owners;
  for (int t = 0; t < kOwners; ++t) {
    owners.emplace_back([&, t] {
      ThreadCache* cache = registry.adopt();
      std::mt19937 random(static_cast<unsigned>(t) + 1);
      std::vector<std::pair<void*, unsigned>> live;
      const auto free_one = [&](std::size_t i) {
        std::swap(live[i], live.back());
        const auto [object, c] = live.back();
        live.pop_back();
        auto& mark = *static_cast<std::uint64_t*>(object);
        clashes += mark != static_cast<std::uint64_t>(t) + 1;
        mark = 0;
        deallocate_into(*cache, c, object);
      };
      gate.arrive_and_wait();
      // On a busy machine the thread that takes over may have to wait for its turn.
      for (int step = 0; step < kSteps || (moved == 0 && step < 1000 * kSteps); ++step) {
        // Now the live objects grow, now they shrink: bins overflow and run dry, and mostly do
        // neither.
        const bool grows = random() % 16 < (step / 512 % 2 == 0 ? 9u : 7u);
        if (grows || live.empty()) {
          const unsigned kind = random() % 4;
          const unsigned c = kind == 0 ? kLarge : kind;
          void* object = allocate_from(*cache, c);
          auto& mark = *static_cast<std::uint64_t*>(object);
          clashes += mark != 0;
          mark = static_cast<std::uint64_t>(t) + 1;
          live.emplace_back(object, c);
        } else {
          free_one(random() % 4 == 0 ? random() % live.size() : live.size() - 1);
        }
      }
      while (!live.empty()) free_one(live.size() - 1);
      registry.park(*cache);
      running.fetch_sub(1);
    });
  }
  gate.arrive_and_wait();
  while (running.load() != 0) moved += registry.flush_all();
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_GT(moved, 0u);
  registry.flush_all();
  process.central->release_all();
  process.central->check_invariants();
  EXPECT_EQ(process.used_pages(), 0u) << "an object was lost";
}

}  // namespace
}  // namespace strata
