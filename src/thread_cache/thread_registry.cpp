#include "thread_cache/thread_registry.h"

#include <algorithm>
#include <new>

namespace strata {

ThreadCache* ThreadRegistry::adopt() noexcept {
  LockGuard guard(lock_);
  ThreadCache* cache = parked_.pop_front();
  if (cache != nullptr) {
    --parked_count_;
    parked_long_ = std::min(parked_long_, parked_count_);
  } else {
    cache = empty_.pop_front();
  }
  if (cache == nullptr) {
    void* memory = metadata_.allocate(sizeof(ThreadCache));
    if (memory == nullptr) return nullptr;
    cache = new (memory) ThreadCache(central_, budget_, metadata_);
  }
  in_use_.push_front(*cache);
  ++in_use_count_;
  budget_.add_thread();
  return cache;
}

void ThreadRegistry::park(ThreadCache& cache) noexcept {
  LockGuard guard(lock_);
  in_use_.remove(cache);
  --in_use_count_;
  budget_.remove_thread();
  if (parked_count_ == kMaxParked) {
    ThreadCache& oldest = *pop_parked();
    oldest.flush_all();
    empty_.push_front(oldest);
  }
  parked_.push_front(cache);
  ++parked_count_;
}

void ThreadRegistry::flush_unneeded() noexcept {
  LockGuard guard(lock_);
  while (parked_long_ != 0) {
    ThreadCache& oldest = *pop_parked();
    oldest.flush_all();
    empty_.push_front(oldest);
  }
  parked_long_ = parked_count_;
}

void ThreadRegistry::flush_parked() noexcept {
  LockGuard guard(lock_);
  while (ThreadCache* cache = pop_parked()) {
    cache->flush_all();
    empty_.push_front(*cache);
  }
}

/// Takes the oldest parked cache off its list.
ThreadCache* ThreadRegistry::pop_parked() noexcept {
  ThreadCache* oldest = parked_.back();
  if (oldest == nullptr) return nullptr;
  parked_.remove(*oldest);
  --parked_count_;
  if (parked_long_ != 0) --parked_long_;
  return oldest;
}

std::size_t ThreadRegistry::count_objects(unsigned size_class) noexcept {
  LockGuard guard(lock_);
  std::size_t objects = 0;
  for (const auto* list : {&in_use_, &parked_}) {
    for (ThreadCache* cache = list->front(); cache != nullptr; cache = list->next(*cache)) {
      objects += cache->count_objects(size_class);
    }
  }
  return objects;
}

std::size_t ThreadRegistry::live_threads() noexcept {
  LockGuard guard(lock_);
  return in_use_count_;
}

bool ThreadRegistry::has_parked() noexcept {
  LockGuard guard(lock_);
  return parked_count_ != 0;
}

void ThreadRegistry::lock_all() noexcept {
  lock_.lock();
  for (ThreadCache* cache = in_use_.front(); cache != nullptr; cache = in_use_.next(*cache)) {
    cache->bins_lock().lock();
  }
}

void ThreadRegistry::unlock_all() noexcept {
  for (ThreadCache* cache = in_use_.front(); cache != nullptr; cache = in_use_.next(*cache)) {
    cache->bins_lock().unlock();
  }
  lock_.unlock();
}

void ThreadRegistry::reset_after_fork(ThreadCache* own) noexcept {
  while (ThreadCache* cache = in_use_.pop_front()) {
    cache->bins_lock().reset_after_fork();
    budget_.remove_thread();
  }
  in_use_count_ = 0;
  if (own != nullptr) {
    in_use_.push_front(*own);
    ++in_use_count_;
    budget_.add_thread();
  }
  lock_.reset_after_fork();
}

}  // namespace strata
