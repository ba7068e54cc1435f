#include "central/transfer_cache.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/move_words.h"

namespace strata {
namespace {

/// Where the thread has its own variables: a number that no other thread has, unless the two are 64
/// GiB apart. Never 0.
std::uint32_t this_thread() noexcept {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(&t_locks_taken) >> 4) | 1;
}

}  // namespace

std::size_t TransferCache::remove(void** end, std::size_t count) noexcept {
  LockGuard guard(lock_);
  const std::size_t taken = remove_locked(end, count);
  drop_slots();
  return taken;
}

std::size_t TransferCache::try_insert(void* const* objects, std::size_t count) noexcept {
  if (!lock_.try_lock()) return 0;
  const std::size_t taken = insert_locked(objects, count);
  lock_.unlock();
  return taken;
}

Tried TransferCache::try_remove(void** end, std::size_t count) noexcept {
  if (!lock_.try_lock()) return {0, true};
  const std::size_t taken = remove_locked(end, count);
  if (size() == 0 && overflowed_by_ == this_thread()) {
    overflowed_by_ = 0;
    set_capacity(std::min<std::size_t>(2 * capacity(), bounds_.most));
  }
  lock_.unlock();
  return {taken, false};
}

std::size_t TransferCache::try_take(void** end, std::size_t count) noexcept {
  if (!lock_.try_lock()) return 0;
  const std::size_t taken = remove_locked(end, count);
  lock_.unlock();
  return taken;
}

std::size_t TransferCache::insert_locked(void* const* objects, std::size_t count) noexcept {
  const std::size_t before = size();
  const std::size_t room = capacity() > before ? capacity() - before : 0;
  if (count >= room) overflowed_by_ = this_thread();
  std::size_t taken = std::min(count, room);
  if (before + taken > slot_count_ && !make_slots(before + taken)) taken = slot_count_ - before;
  if (taken == 0) return 0;
  move_words(slots_ + before, objects + (count - taken), taken);
  set_size(before + taken);
  return taken;
}

/// Makes room for at least `count` objects.
/// \returns  false when out of memory
[[gnu::noinline]] bool TransferCache::make_slots(std::size_t count) noexcept {
  const std::size_t wanted =
      std::max(std::bit_ceil(count), std::min<std::size_t>(bounds_.first, kFirstSlots));
  auto** const slots = static_cast<void**>(metadata_.allocate(wanted * sizeof(void*)));
  if (slots == nullptr) return false;
  move_words(slots, slots_, size());
  drop_others();
  slots_ = slots;
  slot_count_ = wanted;
  return true;
}

/// Goes back to its own slots. The caller has moved the contents.
void TransferCache::drop_others() noexcept {
  if (slots_ != own_slots_) metadata_.deallocate(slots_, slot_count_ * sizeof(void*));
  slots_ = own_slots_;
  slot_count_ = kOwnSlots;
}

std::size_t TransferCache::remove_locked(void** end, std::size_t count) noexcept {
  const std::size_t taken = std::min(count, size());
  const std::size_t left = size() - taken;
  if (taken != 0) move_words(end - taken, slots_ + left, taken);
  set_size(left);
  least_size_ = std::min(least_size_, static_cast<std::uint32_t>(left));
  return taken;
}

std::size_t TransferCache::take_unneeded(void** out, std::size_t count) noexcept {
  LockGuard guard(lock_);
  const std::size_t taken = std::min<std::size_t>(count, least_size_);
  if (taken == 0) {
    least_size_ = size_.load(std::memory_order_relaxed);  // the next round begins
    drop_slots();
    return 0;
  }
  // From the bottom: what has waited longest.
  move_words(out, slots_, taken);
  const std::size_t left = size() - taken;
  move_words(slots_, slots_ + taken, left);
  set_size(left);
  least_size_ -= static_cast<std::uint32_t>(taken);
  set_capacity(std::max<std::size_t>(capacity() - std::min(taken, capacity()), bounds_.first));
  return taken;
}

void TransferCache::shrink() noexcept {
  LockGuard guard(lock_);
  set_capacity(bounds_.first);
  overflowed_by_ = 0;
  drop_slots();
}

bool TransferCache::try_halve() noexcept {
  if (!lock_.try_lock()) return false;
  set_capacity(std::max<std::size_t>(capacity() / 2, bounds_.first));
  overflowed_by_ = 0;
  lock_.unlock();
  return true;
}

/// Frees the slots of a cache that had grown, once it is empty.
void TransferCache::drop_slots() noexcept {
  if (size() == 0 && capacity() == bounds_.first && slot_count_ > std::bit_ceil(bounds_.first))
    drop_others();
}

void TransferCache::forget_objects() noexcept {
  LockGuard guard(lock_);
  set_size(0);
  tally_.settle(0, said_);
  least_size_ = 0;
}

void TransferCache::tell_tally() noexcept {
  LockGuard guard(lock_);
  tally_.settle(static_cast<std::ptrdiff_t>(size() * bounds_.object_bytes), said_);
}

void TransferCache::set_size(std::size_t size) noexcept {
  size_.store(static_cast<std::uint32_t>(size), std::memory_order_relaxed);
  tally_.tell(static_cast<std::ptrdiff_t>(size * bounds_.object_bytes), said_, kSaidAbove);
}

}  // namespace strata
