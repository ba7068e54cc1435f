#include "thread_cache/thread_registry.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "os/threads.h"
#include "os/wait.h"

namespace strata {
namespace {

/// Whether the thread's state is still mapped, and names the cache as its own. Does not fault if it
/// was unmapped.
bool has_state(const ThreadState& thread, const ThreadCache* cache) noexcept {
  std::uint32_t first;
  std::memcpy(&first, &cache, sizeof first);
  return os::is_still(reinterpret_cast<const std::uint32_t*>(&thread.cache), first);
}

}  // namespace

ThreadCache* ThreadRegistry::adopt(ThreadState* thread) noexcept {
  LockGuard guard(lock_);
  ThreadCache* cache = parked_.pop_front();
  if (cache != nullptr) {
    count_parked(*cache, false);
    parked_long_ = std::min(parked_long_, parked_count_);
  } else {
    cache = empty_.pop_front();
  }
  if (cache == nullptr) {
    // The kernel clears its pages as they are touched: threads that begin at once do not wait for
    // each other's.
    guard.unlock();
    void* const memory = metadata_.allocate(sizeof(ThreadCache));
    if (memory != nullptr) cache = new (memory) ThreadCache(central_, budget_, metadata_);
    guard.lock();
    if (cache == nullptr) return nullptr;
  }
  in_use_.push_front(*cache);
  // What others cache is taken over when memory is out: too late to ask for room.
  if (++in_use_count_ > 1) make_room();
  budget_.add_thread();
  central_.enter(cache->place());
  if (thread != nullptr) give_bins(*cache, *thread);
  return cache;
}

bool ThreadRegistry::enroll(ThreadCache& cache, ThreadState& thread) noexcept {
  LockGuard guard(lock_);
  const bool is_enrolled = give_bins(cache, thread);
  if (is_enrolled) cache.is_told_of_exit_ = true;
  return is_enrolled;
}

bool ThreadRegistry::give_bins(ThreadCache& cache, ThreadState& thread) noexcept {
  if (thread.cache != nullptr && thread.cache != &cache) return false;
  ObjectBins& bins = gate_ != nullptr ? *gate_ : cache;
  thread.cache = &cache;
  thread.free_bins = &bins;
  thread.verified_bins =
      gate_ != nullptr ? static_cast<ObjectBins*>(&cache) : &EmptyBins::g_all.first();
  thread.set_malloc_bins(redirected_to_ != nullptr ? *redirected_to_ : bins);
  cache.owner_ = &thread;
  return true;
}

void ThreadRegistry::open_gate(ThreadCache& cache, ThreadState& thread) noexcept {
  LockGuard guard(lock_);
  thread.exchange_malloc_bins(*thread.free_bins, cache);  // unless malloc is redirected
  thread.free_bins = &cache;
  thread.verified_bins = &EmptyBins::g_all.first();
}

void ThreadRegistry::redirect_malloc(ObjectBins* bins) noexcept {
  LockGuard guard(lock_);
  redirected_to_ = bins;
  for (ThreadCache& cache : in_use_) {
    if (!cache.is_told_of_exit_) continue;
    // Not told after all: its first call was in its last exit hook, or it ended without them.
    // Accepted: it ends like that, and its state is unmapped, in the few instructions below.
    if (!has_state(*cache.owner_, &cache)) {
      cache.is_told_of_exit_ = false;
      continue;
    }
    LockGuard bins_guard(cache.bins_lock_);  // its owner has them, and hides none
    cache.owner_->set_malloc_bins(bins != nullptr ? *bins : *cache.owner_->free_bins);
    ThreadState::write(cache.owner_->bytes_left, ThreadState::kUndrawn);
    ThreadState::write(cache.owner_->calls_left, ThreadState::kUndrawn);
  }
}

void ThreadRegistry::undirect_malloc(ThreadState& thread) noexcept {
  LockGuard guard(lock_);
  if (redirected_to_ == nullptr) thread.set_malloc_bins(*thread.free_bins);
}

void ThreadRegistry::park(ThreadCache& cache) noexcept {
  LockGuard guard(lock_);
  // Before another thread may adopt it: signal handlers of this one may still allocate.
  if (cache.owner_ != nullptr) cache.owner_->bypass_caches();
  cache.owner_ = nullptr;
  cache.is_told_of_exit_ = false;
  in_use_.remove(cache);
  --in_use_count_;
  budget_.remove_thread();
  central_.leave(cache.place());
  ThreadCache* const oldest = parked_count_ == kMaxParked ? pop_parked() : nullptr;
  parked_.push_front(cache);
  count_parked(cache, true);
  if (oldest == nullptr) return;
  // Threads that end at once do not wait for each other's objects. Who counts them meanwhile misses
  // what is on its way.
  leaving_.push_front(*oldest);
  guard.unlock();
  oldest->flush_all(SizeClassMap::kCount, ThreadCache::Way::kUsual);
  guard.lock();
  leaving_.remove(*oldest);
  empty_.push_front(*oldest);
}

std::size_t ThreadRegistry::flush(ThreadCache::Owners which) noexcept {
  LockGuard sweep(sweeping_);
  retire_parked(which);
  return take_over(which);
}

void ThreadRegistry::retire_parked(ThreadCache::Owners which) noexcept {
  const bool is_all = which == ThreadCache::Owners::kAll;
  for (;;) {
    ThreadCache* oldest;
    {
      LockGuard guard(lock_);
      oldest = is_all || parked_long_ != 0 ? pop_parked() : nullptr;
      if (oldest == nullptr) parked_long_ = parked_count_;
    }
    if (oldest == nullptr) return;
    retire(*oldest, is_all ? ThreadCache::Way::kToSpans : ThreadCache::Way::kIdle);
  }
}

/// Empties a cache that nobody needed for a while. Its slots go back to the metadata arena, and the
/// next thread begins with small bins.
void ThreadRegistry::retire(ThreadCache& cache, ThreadCache::Way way) noexcept {
  cache.flush_all(SizeClassMap::kCount, way);
  cache.give_back_slots();
  cache.~ThreadCache();
  auto* const empty = new (&cache) ThreadCache(central_, budget_, metadata_);
  LockGuard guard(lock_);
  empty_.push_front(*empty);
}

/// \returns  room_; nullptr when out of memory
void** ThreadRegistry::make_room() noexcept {
  if (room_ == nullptr)
    room_ = static_cast<void**>(metadata_.allocate_forever(kRoomSlots * sizeof(void*)));
  return room_;
}

std::size_t ThreadRegistry::take_over(ThreadCache::Owners which) noexcept {
  void** room;
  std::size_t left;
  {
    LockGuard guard(lock_);
    room = make_room();
    if (room == nullptr) return 0;
    left = in_use_count_;
  }
  std::size_t moved = 0;
  for (; left != 0; --left) {
    // Each goes to the front, where those of new threads are: when as many as there were are done,
    // all of these have had their turn.
    ThreadCache* cache;
    {
      LockGuard guard(lock_);
      cache = in_use_.back();
      if (cache == nullptr) break;
      in_use_.move_to_front(*cache);
    }
    // Its thread may end meanwhile, and another begin with it. What does not fit the room is taken
    // in turns.
    for (unsigned turn = 0; turn < kMostTurns; ++turn) {
      const std::size_t bytes =
          cache->take_over(which, room, kRoomSlots, os::barrier_in_all_threads);
      moved += bytes;
      if (bytes == 0) break;
    }
  }
  return moved;
}

/// Unlists the oldest parked cache.
ThreadCache* ThreadRegistry::pop_parked() noexcept {
  ThreadCache* oldest = parked_.back();
  if (oldest == nullptr) return nullptr;
  parked_.remove(*oldest);
  count_parked(*oldest, false);
  if (parked_long_ != 0) --parked_long_;
  return oldest;
}

void ThreadRegistry::forget_objects() noexcept {
  LockGuard guard(lock_);
  // Threads may end meanwhile: one that flushes a cache waits, or is waited for.
  for (const auto* list : {&in_use_, &parked_, &leaving_})
    for (ThreadCache& cache : *list) cache.forget_objects();
}

void ThreadRegistry::count_objects(Counts& counts) noexcept {
  LockGuard sweep(sweeping_);
  LockGuard guard(lock_);
  counts = Counts{};
  for (const auto* list : {&in_use_, &parked_})
    for (ThreadCache& cache : *list) cache.add_objects(counts);
}

std::size_t ThreadRegistry::count_objects(unsigned size_class) noexcept {
  Counts counts;
  count_objects(counts);
  return counts[size_class];
}

std::size_t ThreadRegistry::live_threads() noexcept {
  LockGuard guard(lock_);
  return in_use_count_;
}

bool ThreadRegistry::has_parked() noexcept {
  LockGuard guard(lock_);
  return parked_count_ != 0;
}

void ThreadRegistry::count_parked(const ThreadCache& cache, bool is_parked) noexcept {
  const std::size_t before = parked_bytes();
  parked_count_ = is_parked ? parked_count_ + 1 : parked_count_ - 1;
  parked_bytes_.store(is_parked ? before + cache.capacity_bytes() : before - cache.capacity_bytes(),
                      std::memory_order_relaxed);
}

void ThreadRegistry::hold_locks_for_fork() noexcept {
  LocksInFork::hold(sweeping_);
  LocksInFork::hold(lock_);
  for (const auto* list : {&in_use_, &leaving_})
    for (ThreadCache& cache : *list) LocksInFork::hold(cache.bins_lock());
}

void ThreadRegistry::keep_only(ThreadCache* own) noexcept {
  LockGuard guard(lock_);
  // The caches of other threads are lost with them: their pages stay as the parent has them.
  for (ThreadCache& cache : in_use_) {
    budget_.remove_thread();
    if (&cache == own) {
      central_.leave(cache.place());
    } else {
      central_.forget(cache.place());
    }
  }
  in_use_.forget_all();
  in_use_count_ = 0;
  leaving_.forget_all();
  if (own == nullptr) return;
  static_cast<ListLink<>&>(*own) = {};
  in_use_.push_front(*own);
  in_use_count_ = 1;
  budget_.add_thread();
  central_.enter(own->place());
}

}  // namespace strata
