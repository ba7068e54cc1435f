#include "thread_cache/thread_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/fatal.h"

namespace strata {

static_assert(sizeof(ThreadCache) <= 2 * 4096, "a thread costs two small OS pages of bookkeeping");

constexpr std::size_t ThreadCache::max_capacity(unsigned size_class) noexcept {
  return std::clamp<std::size_t>(kMaxBinBytes / SizeClassMap::bytes_of(size_class), 1,
                                 kMaxCapacity);
}

ThreadCache::ThreadCache(Central& central, CacheBudget& budget, MetadataArena& metadata) noexcept
    : central_(&central), budget_(&budget), metadata_(&metadata) {
  for (unsigned c = 0; c < SizeClassMap::kCount; ++c) {
    bases_[c] = tops_[c];
  }
}

void* ThreadCache::refill_and_pop(unsigned size_class) noexcept {
  STRATA_DCHECK(tops_[size_class] == bases_[size_class]);
  grow(size_class);
  const std::size_t wanted = (capacity(size_class) + 1) / 2;
  if (wanted == 0) {  // no share left, not even for one object
    void* object = nullptr;
    central_->claim(size_class, &object + 1, 1);
    return object;
  }
  void** const first = bases_[size_class] + 1;
  const std::size_t count = central_->claim(size_class, first + wanted, wanted);
  if (count < wanted) std::memmove(first, first + (wanted - count), count * sizeof(void*));
  set_top(size_class, bases_[size_class] + count);
  return pop(size_class);
}

void ThreadCache::flush_and_push(unsigned size_class, void* object) noexcept {
  STRATA_DCHECK(tops_[size_class] == limits_[size_class]);
  if (capacity_bytes_ > kShrinkAbove * budget_->share_bytes()) {
    shrink(size_class);
  } else if (!grow(size_class)) {
    flush(size_class, (capacity(size_class) + 1) / 2);
  }
  if (!push(size_class, object)) central_->release(size_class, &object, 1);
}

bool ThreadCache::flush_all() noexcept {
  bool had_any = false;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const auto held = static_cast<std::size_t>(tops_[c] - bases_[c]);
    if (held == 0) continue;
    had_any = true;
    flush(c, held);
  }
  return had_any;
}

std::size_t ThreadCache::count_objects(unsigned size_class) noexcept {
  LockGuard guard(bins_lock_);
  void** const top = std::atomic_ref<void**>(tops_[size_class]).load(std::memory_order_relaxed);
  return static_cast<std::size_t>(top - bases_[size_class]);
}

/// Doubles the bin, if its class and the thread's share allow.
bool ThreadCache::grow(unsigned size_class) noexcept {
  const std::size_t now = capacity(size_class);
  const std::size_t most = max_capacity(size_class);
  std::size_t wanted = std::min(now == 0 ? kFirstCapacity : 2 * now + 1, most);
  const std::size_t share = budget_->share_bytes();
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class);
  const std::size_t affordable =
      share > capacity_bytes_ ? (share - capacity_bytes_) / object_bytes : 0;
  wanted = std::min(wanted, now + affordable);
  if (wanted <= now) return false;
  if (wanted >= slot_counts_[size_class] && !give_slots(size_class, std::bit_ceil(wanted + 1)))
    return false;
  LockGuard guard(bins_lock_);
  limits_[size_class] = bases_[size_class] + wanted;
  capacity_bytes_ += (wanted - now) * object_bytes;
  return true;
}

/// Halves the bin: threads have come, and the share has become smaller.
void ThreadCache::shrink(unsigned size_class) noexcept {
  const std::size_t now = capacity(size_class);
  const std::size_t kept = now / 2;
  flush(size_class, now - kept / 2);
  LockGuard guard(bins_lock_);
  limits_[size_class] = bases_[size_class] + kept;
  capacity_bytes_ -= (now - kept) * SizeClassMap::bytes_of(size_class);
}

/// Moves the bin to `count` slots, a power of two.
bool ThreadCache::give_slots(unsigned size_class, std::size_t count) noexcept {
  void** slots;
  if (inline_used_ + count <= kInlineSlots) {
    slots = inline_slots_ + inline_used_;
    inline_used_ += count;
  } else {
    slots = static_cast<void**>(metadata_->allocate(count * sizeof(void*)));
    if (slots == nullptr) return false;
  }
  void** const old = bases_[size_class];
  const std::size_t old_count = slot_counts_[size_class];
  const auto held = static_cast<std::size_t>(tops_[size_class] - old);
  const std::size_t old_capacity = capacity(size_class);
  {
    LockGuard guard(bins_lock_);
    std::memcpy(slots, old, (held + 1) * sizeof(void*));
    bases_[size_class] = slots;
    set_top(size_class, slots + held);
    limits_[size_class] = slots + old_capacity;
    slot_counts_[size_class] = static_cast<std::uint16_t>(count);
  }
  const bool was_inline = old >= inline_slots_ && old < inline_slots_ + kInlineSlots;
  if (old_count != 0 && !was_inline) metadata_->deallocate(old, old_count * sizeof(void*));
  return true;
}

/// Moves the `count` coldest objects of the bin to Central.
void ThreadCache::flush(unsigned size_class, std::size_t count) noexcept {
  if (count == 0) return;
  void** const first = bases_[size_class] + 1;
  central_->release(size_class, first, count);
  const auto left = static_cast<std::size_t>(tops_[size_class] - bases_[size_class]) - count;
  std::memmove(first, first + count, left * sizeof(void*));
  set_top(size_class, bases_[size_class] + left);
}

}  // namespace strata
