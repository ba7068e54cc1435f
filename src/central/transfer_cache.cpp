#include "central/transfer_cache.h"

#include <algorithm>
#include <cstring>

namespace strata {

std::size_t TransferCache::insert(void* const* objects, std::size_t count) noexcept {
  LockGuard guard(lock_);
  return insert_locked(objects, count);
}

std::size_t TransferCache::remove(void** end, std::size_t count) noexcept {
  LockGuard guard(lock_);
  return remove_locked(end, count);
}

TransferCache::Tried TransferCache::try_insert(void* const* objects, std::size_t count) noexcept {
  if (!lock_.try_lock()) return {0, true};
  const std::size_t taken = insert_locked(objects, count);
  lock_.unlock();
  return {taken, false};
}

TransferCache::Tried TransferCache::try_remove(void** end, std::size_t count) noexcept {
  if (!lock_.try_lock()) return {0, true};
  const std::size_t taken = remove_locked(end, count);
  lock_.unlock();
  return {taken, false};
}

std::size_t TransferCache::insert_locked(void* const* objects, std::size_t count) noexcept {
  if (slots_ == nullptr) {
    slots_ = static_cast<void**>(metadata_.allocate(capacity_ * sizeof(void*)));
    if (slots_ == nullptr) return 0;
  }
  const std::size_t before = size();
  const std::size_t taken = std::min(count, capacity_ - before);
  std::memcpy(slots_ + before, objects + (count - taken), taken * sizeof(void*));
  size_.store(before + taken, std::memory_order_relaxed);
  return taken;
}

std::size_t TransferCache::remove_locked(void** end, std::size_t count) noexcept {
  const std::size_t taken = std::min(count, size());
  const std::size_t left = size() - taken;
  size_.store(left, std::memory_order_relaxed);
  least_size_ = std::min(least_size_, left);
  if (taken != 0) std::memcpy(end - taken, slots_ + left, taken * sizeof(void*));
  return taken;
}

std::size_t TransferCache::take_unneeded(void** out, std::size_t count) noexcept {
  LockGuard guard(lock_);
  const std::size_t taken = std::min(count, least_size_);
  if (taken == 0) {
    least_size_ = size();  // the next round begins
    return 0;
  }
  // From the bottom: what has waited longest.
  std::memcpy(out, slots_, taken * sizeof(void*));
  const std::size_t left = size() - taken;
  size_.store(left, std::memory_order_relaxed);
  least_size_ -= taken;
  std::memmove(slots_, slots_ + taken, left * sizeof(void*));
  return taken;
}

}  // namespace strata
