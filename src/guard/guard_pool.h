#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/memory_limit.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "guard/allocation.h"
#include "guard/call_site.h"
#include "os/faults.h"
#include "os/page_source.h"

namespace strata {

/// Objects between inaccessible pages: any access beyond one, or to a freed one, is a fault at
/// once. For a sample of a program's allocations, since each costs OS pages and system calls.
/// Guards owns two pools.
///
///   | guard | slot 0 | guard | slot 1 | guard | …     sizes of both: Size
///
/// An object is at the end of its slot (an overflow runs into the guard) or, in every other use, at
/// its start (an underflow does). Only the OS pages that it needs are accessible; the rest of these
/// is filled, and verified at free. Freed slots wait, inaccessible. The longest free is reused
/// first, and only while Size::least_waiting others wait, or if memory is short. The accessible
/// pages are held, as MemoryLimit counts; the rest of the reserved addresses has no memory.
/// \threads  Any number at once; one lock, held during system calls. explain() takes none: it may
///           read a slot that a thread is in the middle of allocating or freeing, which costs a
///           wrong word in the report of a process that dies.
/// \source   GWP-ASan (LLVM; Serebryany et al., 2023), and Electric Fence (Perens, 1987) before it.
class GuardPool {
 public:
  struct Size {
    std::size_t slots;
    std::size_t least_waiting;
    std::size_t most_live_bytes;  ///< objects beyond it are not guarded
    std::size_t slot_bytes;       ///< at least kLeastSlotPages
    std::size_t guard_bytes;      ///< at least an OS page
  };
  // Chosen: live objects of up to an OS page take 4 MiB at most (of 4 KiB each), and 2 of the 65530
  // mappings that the kernel allows a process each.
  static constexpr Size kForSamples{1024, 128, SIZE_MAX, 0, 0};
  // Chosen: below 256 KiB, with the bookkeeping of each slot.
  static constexpr Size kForAllPrograms{64, 24, std::size_t{128} << 10, 0, 0};
  // Chosen: 2 GiB of addresses, and 350 KiB of bookkeeping, touched as slots are first used.
  static constexpr Size kForBlocks{1024, 128, SIZE_MAX, std::size_t{1} << 20, std::size_t{1} << 20};
  // Chosen: 21 MiB of addresses. Live blocks hold what they would hold elsewhere, but freed ones
  // are not reused for the next: a larger block could cost a program more than 256 KiB.
  static constexpr Size kForBlocksOfAllPrograms{16, 8, std::size_t{256} << 10,
                                                std::size_t{256} << 10, std::size_t{1} << 20};
  static constexpr std::size_t kLeastSlotPages = 4;

  struct Statistics {
    std::size_t reserved_bytes;  ///< of addresses: slots and guards
    std::size_t live_objects;
    std::size_t live_bytes;  ///< OS pages of live objects
    std::size_t waiting_objects;
    std::size_t waiting_bytes;  ///< OS pages of freed objects that the kernel refused to decommit
    std::uint64_t allocations;  ///< since the start
  };

  constexpr GuardPool(os::PageSource& pages, MetadataArena& metadata, MemoryLimit& limit) noexcept
      : pages_(pages), metadata_(metadata), limit_(limit) {}
  GuardPool(const GuardPool&) = delete;
  GuardPool& operator=(const GuardPool&) = delete;

  /// Reserves the slots, unless that is done. Before, the pool owns nothing, and has no room.
  /// \returns  False when out of memory, with nothing changed; it can be tried again.
  /// \cost     If the kernel refuses the slots: one system call; what describes them: three.
  bool start(const Size& size = kForSamples) noexcept;

  /// \returns  An object that reads as zero; nullptr if it does not fit a slot, none is left, or
  ///           the limit forbids it.
  /// \param is_short  memory is short: reuse a slot even if no other one waits
  void* allocate(const Allocation& allocation, bool is_short = false) noexcept;

  /// The size of the largest object; 0 before the start.
  std::size_t slot_bytes() const noexcept { return slot_bytes_.load(std::memory_order_relaxed); }
  bool is_started() const noexcept { return bytes_.load(std::memory_order_relaxed) != 0; }
  bool owns(const void* p) const noexcept {
    const std::size_t bytes = bytes_.load(std::memory_order_acquire);
    return reinterpret_cast<std::uintptr_t>(p) - start_.load(std::memory_order_relaxed) < bytes;
  }

  /// Frees an object.
  /// \pre      owns(p)
  /// \errors   Misuse is fatal: its sentence, and where the object was allocated and freed.
  void deallocate(void* p, const FreeCall& call) noexcept;
  /// \errors  The same; `action` is the sentence's first word.
  std::size_t requested_bytes(const void* p, const char* action) noexcept;

  /// Verifies the fill around every live object, in its OS pages.
  /// \errors  A write there is fatal, as when the object is freed.
  void verify_all() noexcept;

  /// Frees every object, unverified; its slot waits.
  void forget_all() noexcept;
  /// Unmaps all slots, at the end of the pool.
  /// \threads  no other thread uses the pool at the same time, or ever again
  void discard() noexcept;

  /// Reports on standard error an access that faulted.
  /// \returns  false if it was not to the pool.
  /// \threads  A fault's handler.
  // Not analysed: the handler takes no lock, since its thread may hold it.
  bool explain(const os::Fault& fault) const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS;

  Statistics statistics() noexcept;
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork
  void check_invariants() noexcept;

 private:
  enum class State : std::uint8_t { kLive, kFreed };
  struct Slot {
    State state;
    bool is_open;  // while the object is live; longer if the kernel refuses to close it
    bool is_held;  // while it is open, unless it could at least be emptied
    char* object;
    char* accessible;  // the object's OS pages, while it is open
    std::size_t accessible_bytes;
    Allocation allocation;
    CallSite allocated;
    CallSite freed;

    const char* end() const noexcept { return object + allocation.bytes; }
  };

  char* slot_start(std::size_t index) const noexcept;
  std::size_t guard_bytes() const noexcept { return guard_bytes_.load(std::memory_order_relaxed); }
  Slot* slot_around(const void* p) const noexcept STRATA_REQUIRES(lock_);
  Slot* take_slot(std::size_t least_waiting) noexcept STRATA_REQUIRES(lock_);
  void keep_waiting(Slot& slot) noexcept STRATA_REQUIRES(lock_);
  bool open(Slot& slot) noexcept STRATA_REQUIRES(lock_);
  void close(Slot& slot) noexcept STRATA_REQUIRES(lock_);
  void retire(Slot& slot, const CallSite& freed) noexcept STRATA_REQUIRES(lock_);
  Slot& live_slot(const void* p, const char* action) noexcept STRATA_REQUIRES(lock_);
  static void fill_surroundings(const Slot& slot) noexcept;
  static void expect_agreement(const FreeCall& call, const Slot& slot) noexcept;
  static void verify_surroundings(const Slot& slot) noexcept;

  Lock lock_{LockRank::kGuardPool};
  os::PageSource& pages_;
  MetadataArena& metadata_;
  MemoryLimit& limit_;
  // The reserved addresses; bytes_ is 0 before the start and after the end. release after start_ is
  // written (it never changes again), acquire before it is read: a query about any address, as by a
  // fault's handler, never takes a low one for the pool's.
  std::atomic<std::uintptr_t> start_{0};
  std::atomic<std::size_t> bytes_{0};
  // 0 before the start: nothing fits. relaxed: a thread gets an address of the pool only through
  // synchronization.
  std::atomic<std::size_t> slot_bytes_{0};
  std::atomic<std::size_t> guard_bytes_{0};
  Size size_ STRATA_GUARDED_BY(lock_) = {};
  // [size_.slots]; the first used_ have been in use.
  Slot* slots_ STRATA_GUARDED_BY(lock_) STRATA_PT_GUARDED_BY(lock_) = nullptr;
  std::size_t used_ STRATA_GUARDED_BY(lock_) = 0;
  std::uint64_t uses_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t live_bytes_ STRATA_GUARDED_BY(lock_) = 0;     // of live objects
  std::size_t waiting_bytes_ STRATA_GUARDED_BY(lock_) = 0;  // held, of freed objects
  // A ring of size_.slots indices of freed slots, behind the slots.
  std::uint16_t* waiting_ STRATA_GUARDED_BY(lock_) STRATA_PT_GUARDED_BY(lock_) = nullptr;
  std::size_t oldest_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t waiting_count_ STRATA_GUARDED_BY(lock_) = 0;
};

}  // namespace strata
