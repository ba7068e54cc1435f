#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "central/central_list.h"
#include "central/fake_busy_pages.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

/// What other threads do while holes of a list go back to the kernel.
struct HolesOnTheirWay : ::testing::Test {
  static constexpr std::size_t kInSpan = kPageBytes / 1024;

  BusyPages pages;
  FakeAddressSpace space{pages};
  IdleTally tally;
  CentralList list{SizeClassMap::class_of(1024), space.spans, tally};

  void SetUp() override {
    if (os::page_bytes() > 4096) GTEST_SKIP() << "the holes are smaller than an OS page";
  }
  void TearDown() override {
    list.check_invariants();
    space.heap.check_invariants();
  }
  std::vector<void*> claim_a_span() {
    std::vector<void*> objects(kInSpan);
    Span* const span = space.spans.create(list.size_class());
    EXPECT_EQ(list.add_and_claim(*span, objects.data() + kInSpan, kInSpan), kInSpan);
    for (void*& object : objects) object = FreeObject(object).address();
    return objects;
  }
  /// Decommits the holes that the first half of these objects leaves, and has another thread act
  /// meanwhile.
  template <typename Action>
  std::size_t decommit_half(std::vector<void*>& objects, Action action) {
    EXPECT_EQ(list.release(objects.data(), kInSpan / 2), 0u);
    pages.on_decommit = [&] { std::thread(action).join(); };
    const std::size_t returned = list.decommit_holes(CentralList::Spans::kAll);
    EXPECT_FALSE(pages.on_decommit) << "there was no hole";
    return returned;
  }
};

TEST_F(HolesOnTheirWay, OtherSpansServeAndObjectsComeBack) {
  std::vector<void*> objects = claim_a_span();
  std::vector<void*> others = claim_a_span();
  ASSERT_EQ(list.release(others.data(), 1), 0u);
  void* claimed[2] = {};
  const std::size_t returned = decommit_half(objects, [&] {
    EXPECT_EQ(list.try_claim(claimed + 2, 2).count, 1u) << "the rest is on its way";
    EXPECT_EQ(list.release(&objects[kInSpan / 2], 3), 0u);
    EXPECT_EQ(list.decommit_holes_of_emptiest(kPageBytes), 0u);
    list.check_invariants();
  });
  EXPECT_EQ(claimed[1], others[0]);
  EXPECT_EQ(returned, kPageBytes / 2);
  EXPECT_EQ(list.statistics().waits, 0u);
  EXPECT_EQ(list.free_objects(), kInSpan / 2 + 3);
  list.check_invariants();
  std::vector<void*> again(kInSpan);
  EXPECT_EQ(list.claim(again.data() + kInSpan, kInSpan), kInSpan / 2 + 3) << "it serves again";
}

TEST_F(HolesOnTheirWay, ASpanThatBecomesEmptyIsDestroyedAfterwards) {
  std::vector<void*> objects = claim_a_span();
  decommit_half(objects, [&] {
    EXPECT_EQ(list.release(&objects[kInSpan / 2], kInSpan / 2), 0u);
    EXPECT_EQ(list.statistics().spans, 1u);
  });
  EXPECT_EQ(list.statistics().spans, 0u);
  EXPECT_EQ(list.free_objects(), 0u);
  EXPECT_EQ(space.spans.hole_bytes(), 0u);
  EXPECT_EQ(space.heap.used_pages(), 0u);
}

TEST_F(HolesOnTheirWay, WhoHasNoOtherMemoryWaits) {
  std::vector<void*> objects = claim_a_span();
  std::future<std::size_t> claimed;
  void* object = nullptr;
  std::size_t tried = 1;
  decommit_half(objects, [&] {
    tried = list.try_claim(&object + 1, 1).count;
    claimed = std::async(std::launch::async, [&] { return list.claim(&object + 1, 1); });
    while (list.statistics().waits == 0) {
      ASSERT_NE(claimed.wait_for(std::chrono::seconds(0)), std::future_status::ready)
          << "it did not wait";
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(tried, 0u);
  EXPECT_EQ(claimed.get(), 1u);
  EXPECT_NE(object, nullptr);
}

TEST_F(HolesOnTheirWay, WhoWaitsForSomeDoesNotWaitForAll) {
  std::vector<std::vector<void*>> spans;
  while (spans.size() != 1024) spans.push_back(claim_a_span());
  for (std::vector<void*>& objects : spans)
    EXPECT_EQ(list.release(objects.data(), kInSpan / 2), 0u);
  std::atomic<bool> has_had_it = false;
  bool was_between = false;
  std::thread other;
  const std::function<void()> go_on = [&] {
    pages.on_decommit = go_on;
    was_between |= has_had_it;
    while (!has_had_it && !list.holes_lock().has_sleepers()) std::this_thread::yield();
  };
  pages.on_decommit = [&] {
    other = std::thread([&] {
      LockGuard guard(list.holes_lock());
      has_had_it = true;
    });
    go_on();
  };
  list.decommit_holes(CentralList::Spans::kAll);
  other.join();
  EXPECT_TRUE(was_between);
}

/// A turn of compacting ends while some of the nearly empty spans are away. The list goes on since
/// its class shrank. The next turn gains nothing.
TEST_F(HolesOnTheirWay, ANearlyEmptySpanThatComesBackIsNoGain) {
  constexpr std::size_t kSpans = 232;
  constexpr std::size_t kNearlyEmpty = 24;
  constexpr std::size_t kTurn = kSpans * kInSpan / 8;
  std::vector<std::vector<void*>> spans;
  while (spans.size() != kSpans) spans.push_back(claim_a_span());
  for (std::size_t i = 0; i < kNearlyEmpty; ++i)
    EXPECT_EQ(list.release(spans[i].data(), kInSpan - 1), 0u);
  std::vector<void*> live;  // of the other spans: their first objects, then their second ones, ...
  for (std::size_t j = 0; j < kInSpan; ++j) {
    for (std::size_t i = kNearlyEmpty; i < kSpans; ++i) live.push_back(spans[i][j * 7 % kInSpan]);
  }
  list.look();
  list.look();
  ASSERT_TRUE(list.is_compacting());
  const auto release_some = [&](std::size_t count) {
    EXPECT_EQ(list.release(live.data(), count), 0u);
    live.erase(live.begin(), live.begin() + static_cast<std::ptrdiff_t>(count));
  };
  pages.on_decommit = [&] { std::thread([&] { release_some(kTurn); }).join(); };
  list.decommit_holes(CentralList::Spans::kAll);
  EXPECT_FALSE(pages.on_decommit) << "there was no hole";
  ASSERT_TRUE(list.is_compacting());
  void* claimed[64];
  EXPECT_EQ(list.claim(claimed + 64, 64), 64u);
  for (std::size_t returned = 0; returned < kTurn; returned += 64) {
    release_some(64);
    EXPECT_EQ(list.claim(claimed + 64, 64), 64u);
  }
  EXPECT_FALSE(list.is_compacting());
}

using HolesOnTheirWayDeathTest = HolesOnTheirWay;

TEST_F(HolesOnTheirWayDeathTest, ADoubleFreeIsFound) {
  std::vector<void*> objects = claim_a_span();
  decommit_half(objects, [&] { EXPECT_DEATH(list.release(objects.data(), 1), "double free"); });
}

}  // namespace
}  // namespace strata
