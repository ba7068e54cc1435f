#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/idle_tally.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/prefetch.h"
#include "base/thread_annotations.h"
#include "central/tried.h"

namespace strata {

/// A stack of free objects of one class, between threads that free and threads that allocate.
/// Batches of addresses are copied in and out; neither the objects nor their spans are touched.
/// Each lane of a CentralShard's class has one.
///
/// Its objects hold memory, so its capacity is bounded, and objects that were not needed for an
/// interval move on to the spans (take_unneeded). It starts small. One that a thread overflowed and
/// later ran dry was too small for what that thread frees and allocates again, and its capacity
/// doubles. Where one thread frees what another allocates, that would only put more objects between
/// the two, which have left the processors' caches by the time they are used again.
/// \threads  Any number at once; one lock.
class TransferCache {
 public:
  /// So many objects fit inside it; their batches touch no other line.
  static constexpr std::size_t kOwnSlots = 4;

  /// Its first and its largest capacity, in objects, below 2^31, and the bytes of an object.
  struct Bounds {
    std::uint32_t first;
    std::uint32_t most;
    std::uint32_t object_bytes;
  };

  constexpr TransferCache(const Bounds& bounds, IdleTally& tally, MetadataArena& metadata) noexcept
      : metadata_(metadata), tally_(tally), bounds_(bounds), capacity_(bounds.first) {}
  TransferCache(const TransferCache&) = delete;
  TransferCache& operator=(const TransferCache&) = delete;

  /// Moves up to `count` objects to end[-1], end[-2], …. Never raises the capacity. If the cache is
  /// empty then and had grown, frees its slots.
  /// \returns  how many
  std::size_t remove(void** end, std::size_t count) noexcept;

  /// Stores as many of the objects as there is room for, the last ones, without waiting.
  /// \returns  how many; 0 if another thread holds the lock
  std::size_t try_insert(void* const* objects, std::size_t count) noexcept;
  /// As remove(), without waiting, since the spans serve as well. If this thread was the last that
  /// overflowed the cache, and it is empty now, doubles its capacity; its slots stay.
  Tried try_remove(void** end, std::size_t count) noexcept;
  /// As try_remove(), for a caller without demand of its own: running dry this way says nothing
  /// about the capacity.
  /// \returns  how many; 0 if another thread holds the lock
  std::size_t try_take(void** end, std::size_t count) noexcept;

  /// Moves up to `count` of the objects that were not needed since the last round to `out`, and
  /// lowers the capacity by as many.
  /// \returns  How many; 0 ends the round.
  std::size_t take_unneeded(void** out, std::size_t count) noexcept;

  /// Resets the capacity to the first one.
  void shrink() noexcept;
  /// Halves the capacity, without waiting.
  /// \returns  false if another thread holds the lock: the cache is in use
  bool try_halve() noexcept;

  /// Drops all objects.
  /// \threads  no other thread uses it at the same time
  void forget_objects() noexcept;

  void tell_tally() noexcept;

  /// Objects in it: a hint, without the lock.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  bool is_full() const noexcept { return size() >= capacity(); }
  void expect_batch() const noexcept { fetch_to_write(&size_); }
  /// Bytes beyond the first capacity; 0 if the capacity has not grown. A hint, without the lock.
  std::size_t grown_bytes() const noexcept {
    if (capacity() == bounds_.first) return 0;
    const std::size_t now = size();
    return now > bounds_.first ? (now - bounds_.first) * bounds_.object_bytes : 0;
  }
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  std::size_t insert_locked(void* const* objects, std::size_t count) noexcept
      STRATA_REQUIRES(lock_);
  std::size_t remove_locked(void** end, std::size_t count) noexcept STRATA_REQUIRES(lock_);
  bool make_slots(std::size_t count) noexcept STRATA_REQUIRES(lock_);
  void drop_slots() noexcept STRATA_REQUIRES(lock_);
  void drop_others() noexcept STRATA_REQUIRES(lock_);
  void set_size(std::size_t size) noexcept STRATA_REQUIRES(lock_);
  std::size_t capacity() const noexcept { return capacity_.load(std::memory_order_relaxed); }
  void set_capacity(std::size_t objects) noexcept STRATA_REQUIRES(lock_) {
    capacity_.store(objects, std::memory_order_relaxed);
  }

  // Chosen: what small caches hold is not worth a write to a word that all threads share.
  static constexpr std::ptrdiff_t kSaidAbove = 512 * 1024;
  // Chosen: few caches hold more, and slots double as they are needed. With an OS page of them from
  // the start, `slots`, `ephemeral` and `larson` took 1.02 to 1.03 times the memory.
  static constexpr std::size_t kFirstSlots = 64;

  // A line that few batches write, and a part of the next one, which every batch writes.
  MetadataArena& metadata_;
  IdleTally& tally_;
  const Bounds bounds_;
  // [slot_count_]: own_slots_, or allocated ones once it needs more.
  void** slots_ STRATA_GUARDED_BY(lock_) STRATA_PT_GUARDED_BY(lock_) = own_slots_;
  std::size_t slot_count_ STRATA_GUARDED_BY(lock_) = kOwnSlots;
  std::ptrdiff_t said_ STRATA_GUARDED_BY(lock_) = 0;  // bytes that the tally knows
  std::atomic<std::size_t> capacity_;  // written under lock_; read without it as a hint (relaxed)

  // The next line. The fields use the lock's padding, so that all of them fit.
  [[no_unique_address]] Lock lock_{LockRank::kCentral};
  // The thread that last overflowed it; 0 if none has since it grew.
  std::uint32_t overflowed_by_ STRATA_GUARDED_BY(lock_) = 0;
  std::atomic<std::uint32_t> size_{0};                     // as capacity_
  std::uint32_t least_size_ STRATA_GUARDED_BY(lock_) = 0;  // since the last round of take_unneeded
  void* own_slots_[kOwnSlots] STRATA_GUARDED_BY(lock_) = {};
};

}  // namespace strata
