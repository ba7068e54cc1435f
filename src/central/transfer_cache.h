#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/idle_tally.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/prefetch.h"
#include "base/thread_annotations.h"

namespace strata {

/// A stack of objects of one class on their way from threads that free to threads that allocate:
/// batches are copied in and out, without a look at the objects or their spans.
///
/// Objects in it are free and hold memory, so it is bounded, and what stays there unneeded for an
/// interval moves on to the spans (take_unneeded). It begins small. One that ran over, and then ran
/// dry, was too small for what comes and goes: it may hold twice as much from then on.
/// \threads  Any number at once; one lock.
class TransferCache {
 public:
  /// For so many objects it needs no other memory, and their batches touch no other line.
  static constexpr std::size_t kOwnSlots = 4;

  /// How many objects it may hold at first and at the most, below 2^31, and the bytes of each.
  struct Bounds {
    std::uint32_t first;
    std::uint32_t most;
    std::uint32_t object_bytes;
  };

  constexpr TransferCache(const Bounds& bounds, IdleTally& tally, MetadataArena& metadata) noexcept
      : metadata_(metadata), tally_(tally), bounds_(bounds), capacity_(bounds.first) {}
  TransferCache(const TransferCache&) = delete;
  TransferCache& operator=(const TransferCache&) = delete;

  /// Moves up to `count` objects to end[-1], end[-2], …; never has it grow, and gives back the
  /// slots of one that had grown once it is empty.
  /// \returns  how many
  std::size_t remove(void** end, std::size_t count) noexcept;

  /// What a thread got that does not wait for another one, since the spans serve as well.
  struct Tried {
    std::size_t count;
    bool was_busy;  ///< another thread was at it: the count is 0
  };
  /// Takes as many of the objects as there is room for, the last ones, without waiting.
  /// \returns  how many; 0 if another thread is at it
  std::size_t try_insert(void* const* objects, std::size_t count) noexcept;
  /// Moves up to `count` objects as remove() does, without waiting. One that had run over and is
  /// empty now may hold twice as much from then on; its slots stay.
  Tried try_remove(void** end, std::size_t count) noexcept;
  /// As try_remove(), for one that does not need it: that it runs dry so says nothing of its size.
  /// \returns  how many; 0 if another thread is at it
  std::size_t try_take(void** end, std::size_t count) noexcept;

  /// Moves up to `count` of the objects that were not needed since the last round to `out`. It may
  /// hold so many fewer.
  /// \returns  How many; 0 ends the round.
  std::size_t take_unneeded(void** out, std::size_t count) noexcept;

  /// It may hold what it might at first.
  void shrink() noexcept;
  /// It may hold half as many as it might until then, without waiting for a thread that is at it.
  /// \returns  false if one is: it is in use
  bool try_halve() noexcept;

  /// Has no objects any more.
  /// \threads  no other thread uses it at the same time
  void forget_objects() noexcept;

  /// Lets the tally know exactly what is in it.
  void tell_tally() noexcept;

  /// How many are in it: a hint, without the lock.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  bool is_full() const noexcept { return size() >= capacity(); }
  /// A batch is about to come or go: the line of memory that it writes is fetched for that.
  void expect_batch() const noexcept { fetch_to_write(&size_); }
  /// Bytes in it beyond what it might hold at first; 0 where it may hold no more now, too. A hint,
  /// without the lock.
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

  // Chosen: what small ones hold is not worth a word that all threads share.
  static constexpr std::ptrdiff_t kSaidAbove = 512 * 1024;
  // Chosen: a page of the kernel's, as far as it may hold so many.
  static constexpr std::size_t kFirstSlots = 512;

  // A line of memory that few batches write, and a part of the next one, which each of them writes.
  MetadataArena& metadata_;
  IdleTally& tally_;
  const Bounds bounds_;
  // [slot_count_]: its own, or others once it needs more.
  void** slots_ STRATA_GUARDED_BY(lock_) STRATA_PT_GUARDED_BY(lock_) = own_slots_;
  std::size_t slot_count_ STRATA_GUARDED_BY(lock_) = kOwnSlots;
  std::ptrdiff_t said_ STRATA_GUARDED_BY(lock_) = 0;  // bytes that the tally knows
  std::atomic<std::size_t> capacity_;  // written under lock_; read without it as a hint (relaxed)

  // The next line. What follows uses the lock's padding: all of it is to fit.
  [[no_unique_address]] Lock lock_{LockRank::kCentral};
  bool has_run_over_ STRATA_GUARDED_BY(lock_) = false;     // since it grew
  std::atomic<std::uint32_t> size_{0};                     // as capacity_
  std::uint32_t least_size_ STRATA_GUARDED_BY(lock_) = 0;  // since the last round of take_unneeded
  void* own_slots_[kOwnSlots] STRATA_GUARDED_BY(lock_) = {};
};

}  // namespace strata
