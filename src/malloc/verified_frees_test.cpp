// STRATA_CHECKS=frees: the call that misuses a small object finds the misuse, and only misuse is
// found.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>

#include "base/fork_in_test.h"
#include "malloc/malloc_in_test.h"
#include "os/threads.h"

namespace strata {
namespace {

Options with_frees() { return {.checks = Options::Checks::kFrees}; }

struct VerifiedFrees : TestMalloc, ::testing::Test {
  VerifiedFrees() { TestMalloc::start(with_frees()); }
  using TestMalloc::check;

  char* get(std::size_t bytes) { return static_cast<char*>(thread.allocate(bytes)); }
  /// Frees with what operator delete or free_sized say.
  void deallocate(void* p, const FreeCall& call) { malloc.deallocate(thread.state, p, call); }

  TestThread thread{malloc};
};

constexpr const char* kIsFree = "strata: double free of 0x[0-9a-f]+: the object is free already";
constexpr const char* kInside = "strata: invalid free of 0x[0-9a-f]+: it points into an object";
constexpr const char* kNever = "strata: invalid free of 0x[0-9a-f]+: it was freed before, or never";
constexpr const char* kWrongSize =
    "strata: mismatched sized delete of 0x[0-9a-f]+: it is an object";

TEST_F(VerifiedFrees, AThreadHasACacheAndEveryCallPassesTheChecks) {
  thread.deallocate(thread.allocate(100));
  ASSERT_NE(thread.state.cache, nullptr);
  EXPECT_EQ(&thread.state.for_malloc(), thread.state.free_bins);
  EXPECT_NE(thread.state.free_bins, thread.state.cache);
  EXPECT_EQ(thread.state.verified_bins, thread.state.cache);
  EXPECT_NE(thread.state.cache->count_objects(SizeClassMap::class_of(100)), 0u);
}

TEST_F(VerifiedFrees, ASecondFreeIsFoundWhereverTheFirstCopyIs) {
  char* const p = get(100);
  char* const other = get(100);
  thread.deallocate(p);
  EXPECT_DEATH(thread.deallocate(p), kIsFree) << "the bin's latest";
  thread.deallocate(other);
  EXPECT_DEATH(thread.deallocate(p), kIsFree) << "deeper in the bin";
  thread.state.cache->flush_all();
  EXPECT_DEATH(thread.deallocate(p), kIsFree) << "between threads";
  engine.central().flush_transfer();
  EXPECT_DEATH(thread.deallocate(other), kIsFree) << "in its span";
}

TEST_F(VerifiedFrees, ASecondFreeByAnotherThreadOrOneWithoutACacheIsFound) {
  char* const p = get(100);
  thread.deallocate(p);
  TestThread second(malloc);
  EXPECT_DEATH(second.deallocate(p), kIsFree);
  TestThread ended(malloc);
  ended.end();
  EXPECT_DEATH(ended.deallocate(p), kIsFree);
  char* const again = static_cast<char*>(ended.allocate(100));
  EXPECT_DEATH(ended.deallocate(again + 16), kInside);
  ended.deallocate(again);
  EXPECT_DEATH(ended.deallocate(again), kIsFree);
}

/// glibc frees the thread-local variables of a stack's last thread and then forgets them, which the
/// child of a fork meanwhile does once more.
TEST_F(VerifiedFrees, InAChildTheCLibraryMayFreeOnceMoreWhatALostThreadFreed) {
  const auto* const c_library = reinterpret_cast<const void*>(&::getppid);
  if (!os::is_c_library(c_library)) GTEST_SKIP() << "nobody knows here who calls";
  TestThread lost(malloc);
  void* const p = lost.allocate(100);
  lost.deallocate(p);
  thread.deallocate(thread.allocate(500));
  const auto free_in_c_library = [&] { malloc.deallocate_slowly(thread.state, p, {}, c_library); };
  EXPECT_DEATH(free_in_c_library(), kIsFree) << "this is no child";
  fork_as_child(malloc);
  malloc.reset_after_fork(thread.state);
  lost.state = MallocInstance::new_thread();
  const std::size_t cached = statistics().cached;
  free_in_c_library();
  EXPECT_EQ(statistics().cached, cached) << "it is where it was";
  EXPECT_DEATH(thread.deallocate(p), kIsFree) << "the program's own free";
}

TEST_F(VerifiedFrees, InAChildOfAProcessWithOneThreadEachDoubleFreeIsFound) {
  const auto* const c_library = reinterpret_cast<const void*>(&::getppid);
  void* const p = thread.allocate(100);
  thread.deallocate(p);
  fork_as_child(malloc);
  malloc.reset_after_fork(thread.state);
  EXPECT_DEATH(malloc.deallocate_slowly(thread.state, p, {}, c_library), kIsFree);
}

TEST_F(VerifiedFrees, APointerIntoAnObjectIsRefusedInEveryClass) {
  for (unsigned c = 2; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    char* const p = get(bytes);
    for (const std::size_t inside : {std::size_t{16}, bytes / 32 * 16, bytes - 16}) {
      EXPECT_FALSE(HotPath::push_verified(thread.state, engine.map(), p + inside, {}))
          << "class " << c;
    }
    thread.deallocate(p);
  }
  EXPECT_DEATH(thread.deallocate(get(8192) + 4096), kInside);
  EXPECT_DEATH(thread.deallocate(get(100'000) + kPageBytes), kInside);
}

TEST_F(VerifiedFrees, AnObjectThatNobodyHasHadIsNoneToFree) {
  char* const p = get(10'000);  // the first of a few: the last one of the span is not handed out
  Span* const span = engine.map().span_of(p);
  char* const last = span->start + std::size_t{span->object_count - 1} * span->object_bytes;
  EXPECT_DEATH(thread.deallocate(last == p ? span->start : last), kNever);
  // The tail behind the last object is no object.
  char* const tail = last + span->object_bytes;
  ASSERT_LT(tail, span->start + span->bytes());
  EXPECT_DEATH(thread.deallocate(tail), kInside);
}

TEST_F(VerifiedFrees, ReallocAndUsableSizeOfAFreedObjectAreRefused) {
  char* const p = get(100);
  char* const other = get(100);
  thread.deallocate(p);
  thread.deallocate(other);
  EXPECT_DEATH(thread.reallocate(p, 90), "invalid realloc of 0x[0-9a-f]+: the object is free");
  EXPECT_DEATH(thread.reallocate(p, 9000), "invalid realloc of 0x[0-9a-f]+: the object is free");
  EXPECT_DEATH(thread.reallocate(p, 0), "invalid realloc of 0x[0-9a-f]+: the object is free");
  EXPECT_DEATH(thread.usable_bytes(p),
               "invalid malloc_usable_size of 0x[0-9a-f]+: the object is free");
  EXPECT_DEATH(thread.usable_bytes(p + 16), "it points into an object, not at its start");
}

TEST_F(VerifiedFrees, ADeleteSaysTheSizeOfItsClass) {
  deallocate(get(100), deleting(100));
  deallocate(get(100), deleting(97));  // what the class says, and no more, is known
  deallocate(get(0), deleting(0));
  deallocate(thread.allocate(100, 64), deleting(100, 64));
  deallocate(thread.allocate(100, 8), deleting(100, 8));
  EXPECT_DEATH(deallocate(get(100), deleting(96)), kWrongSize);
  EXPECT_DEATH(deallocate(get(100), deleting(113)), kWrongSize);
  EXPECT_DEATH(deallocate(get(100), deleting(1'000'000)), kWrongSize);
  EXPECT_DEATH(deallocate(thread.allocate(100, 256), deleting(100)), kWrongSize);
}

TEST_F(VerifiedFrees, FreeSizedKnowsWhatReallocLeavesInPlace) {
  char* p = get(1000);
  p = static_cast<char*>(thread.reallocate(p, 600));
  deallocate(p, freeing(600));
  deallocate(thread.allocate(100, 64), freeing(100, 64));
  EXPECT_DEATH(deallocate(get(1000), freeing(400)), "mismatched free_sized of .* of 1024 bytes");
  EXPECT_DEATH(deallocate(get(1000), freeing(1025)), "mismatched free_sized of .* with 1025");
  EXPECT_DEATH(deallocate(thread.allocate(100, 256), freeing(100, 64)),
               "mismatched free_aligned_sized of .* of 256 bytes and was freed with 100");
}

TEST_F(VerifiedFrees, WithoutMemoryABlockThatFreeSizedWouldNotKnowIsNotShrunk) {
  char* const p = get(8000);
  char* const large = get(400'000);
  p[0] = 'a';
  pages.refuse_from_call(1);
  while (get(1300) != nullptr) {
  }
  EXPECT_EQ(thread.reallocate(large, 1300), large) << "its size is not compared";
  EXPECT_EQ(thread.reallocate(p, 5000), p);
  EXPECT_EQ(thread.reallocate(p, 1300), nullptr);
  EXPECT_EQ(p[0], 'a');
  deallocate(p, freeing(8000));
  deallocate(large, freeing(1300));
}

TEST_F(VerifiedFrees, ReallocStaysInPlaceOrMovesAsWithoutChecks) {
  char* const p = get(1000);
  p[0] = 'a';
  EXPECT_EQ(thread.reallocate(p, 900), p);
  char* const moved = static_cast<char*>(thread.reallocate(p, 5000));
  EXPECT_NE(moved, p);
  EXPECT_EQ(moved[0], 'a');
  EXPECT_DEATH(thread.deallocate(p), kIsFree);
  char* const large = static_cast<char*>(thread.reallocate(moved, 400'000));
  EXPECT_EQ(large[0], 'a');
  char* const small = static_cast<char*>(thread.reallocate(large, 50));
  EXPECT_EQ(small[0], 'a');
  thread.deallocate(small);
}

TEST_F(VerifiedFrees, WhatAWatcherHasTakenIsFoundWhenTheWatchIsOver) {
  struct Choosing : Watcher {
    std::int64_t draw_interval() noexcept override { return 0; }
    Engine::Block allocate(const Allocation&) noexcept override { return {nullptr, false}; }
  } watcher;
  thread.deallocate(thread.allocate(100));
  malloc.detour().begin(Detour::kByCalls, watcher);
  char* const p = get(100);
  EXPECT_NE(&thread.state.for_malloc(), thread.state.free_bins);
  malloc.detour().end(Detour::kByCalls);
  EXPECT_EQ(&thread.state.for_malloc(), thread.state.free_bins);
  thread.deallocate(p);
  EXPECT_DEATH(thread.deallocate(p), kIsFree);
}

TEST_F(VerifiedFrees, ABlockOfNoBytesIsOneAsAnyOther) {
  char* p = get(0);
  char* const other = get(0);
  EXPECT_NE(p, other);
  EXPECT_EQ(thread.usable_bytes(p), 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(thread.allocate(0, 4096)) % 4096, 0u);
  p = static_cast<char*>(thread.reallocate(p, 100));
  p[99] = 'a';
  EXPECT_EQ(thread.allocate_zeroed(0) == nullptr, false);
  thread.deallocate(p);
  deallocate(other, deleting(0));
  EXPECT_DEATH(thread.deallocate(other), "double free of .*: the block of 0 bytes is free already");
  check();
}

TEST_F(VerifiedFrees, AfterTheFirstBlockOfNoBytesAnotherIsThereAtOnceUnlessAWatcherLooks) {
  thread.deallocate(get(16));  // the thread has a cache
  EXPECT_EQ(malloc.take_empty(thread.state), nullptr);
  char* const first = get(0);
  void* const second = malloc.take_empty(thread.state);
  EXPECT_TRUE(malloc.empties().owns(second));
  EXPECT_NE(second, first);
  EXPECT_TRUE(malloc.take_back_empty(second));
  EXPECT_FALSE(malloc.take_back_empty(get(16)));
  ThreadState without_cache = MallocInstance::new_thread();
  EXPECT_EQ(malloc.take_empty(without_cache), nullptr);
  ASSERT_TRUE(malloc.begin_guards(1, 1));
  EXPECT_EQ(malloc.take_empty(thread.state), nullptr);
}

TEST_F(VerifiedFrees, ABlockOfNoBytesNeedsNoGuard) {
  ASSERT_TRUE(malloc.begin_guards(1, 1));
  char* const empty = get(0);
  char* const guarded = get(1);
  EXPECT_TRUE(malloc.empties().owns(empty));
  EXPECT_TRUE(malloc.guards().owns(guarded));
  thread.deallocate(empty);
  thread.deallocate(guarded);
  EXPECT_DEATH(thread.deallocate(empty), "double free of .*: the block of 0 bytes is free already");
}

TEST_F(VerifiedFrees, OutOfMemoryForStatesIsOutOfMemory) {
  char* const first = get(16);
  ASSERT_NE(first, nullptr);
  pages.refuse_from_call(1);
  while (get(16) != nullptr) {
  }
  thread.deallocate(first);
  pages.refuse_nothing();
  EXPECT_NE(get(16), nullptr);
  EXPECT_NE(get(100), nullptr);
  engine.check_invariants();
}

}  // namespace
}  // namespace strata
