#pragma once

#include <atomic>
#include <cstddef>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"

namespace strata {

/// A stack of objects of one class on their way from threads that free to threads that allocate:
/// batches are copied in and out, without a look at the objects or their spans.
/// Objects in it are free and hold memory, so it is bounded, and what stays there unneeded for an
/// interval moves on to the spans (take_unneeded).
/// \threads  Any number at once; one lock.
class TransferCache {
 public:
  constexpr TransferCache(std::size_t capacity, MetadataArena& metadata) noexcept
      : metadata_(metadata), capacity_(capacity) {}
  TransferCache(const TransferCache&) = delete;
  TransferCache& operator=(const TransferCache&) = delete;

  /// Takes as many of the objects as there is room for, the last ones.
  /// \returns  how many
  std::size_t insert(void* const* objects, std::size_t count) noexcept;

  /// Moves up to `count` objects to end[-1], end[-2], …
  /// \returns  how many
  std::size_t remove(void** end, std::size_t count) noexcept;

  /// The same two, without waiting for a thread that is at it: the spans serve as well.
  /// \returns  How many, and whether another thread was at it; none then.
  struct Tried {
    std::size_t count;
    bool was_busy;
  };
  Tried try_insert(void* const* objects, std::size_t count) noexcept;
  Tried try_remove(void** end, std::size_t count) noexcept;

  /// Moves up to `count` of the objects that were not needed since the last round to `out`.
  /// \returns  How many; 0 ends the round.
  std::size_t take_unneeded(void** out, std::size_t count) noexcept;

  /// Has no objects any more.
  /// \threads  no other thread uses it at the same time
  void forget_objects() noexcept {
    LockGuard guard(lock_);
    size_.store(0, std::memory_order_relaxed);
    least_size_ = 0;
  }

  /// How many are in it: a hint, without the lock.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  bool is_full() const noexcept { return size() == capacity_; }
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  std::size_t insert_locked(void* const* objects, std::size_t count) noexcept
      STRATA_REQUIRES(lock_);
  std::size_t remove_locked(void** end, std::size_t count) noexcept STRATA_REQUIRES(lock_);

  Lock lock_{LockRank::kCentral};
  MetadataArena& metadata_;
  const std::size_t capacity_;

  // [capacity_], made at the first insert.
  void** slots_ STRATA_GUARDED_BY(lock_) STRATA_PT_GUARDED_BY(lock_) = nullptr;
  // Written under lock_; read without it as a hint (relaxed).
  std::atomic<std::size_t> size_{0};
  std::size_t least_size_ STRATA_GUARDED_BY(lock_) = 0;  // since the last round of take_unneeded
};

}  // namespace strata
