#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "guard/allocation.h"
#include "os/faults.h"
#include "os/page_source.h"

namespace strata {

/// Blocks of 0 bytes, unless nothing is checked: each is an address in a range where every access
/// is a fault. MallocInstance owns them. The address freed longest ago, or never used, is given
/// next, so that late accesses and second frees stay detectable for long.
/// \threads  Any number at once; a lock for the first block only. If two threads allocate at once,
///           one may set the search back by what the other has passed.
/// \cost     1 MiB of addresses and 64 KiB of bookkeeping from the first block on, of which only
///           what was used holds memory.
class EmptyBlocks {
 public:
  // Chosen: programs have few; one that has more gets ordinary blocks.
  static constexpr std::size_t kBlocks = 65'536;
  // Chosen: the search passes at most so many live blocks, in some 0.1 µs.
  static constexpr std::size_t kMostPassed = 128;
  static constexpr std::size_t kBlockBytes = 16;  // aligned as every block is
  static constexpr std::size_t kReservedBytes = kBlocks * kBlockBytes;

  constexpr EmptyBlocks(os::PageSource& pages, MetadataArena& metadata) noexcept
      : pages_(pages), metadata_(metadata) {}
  EmptyBlocks(const EmptyBlocks&) = delete;
  EmptyBlocks& operator=(const EmptyBlocks&) = delete;

  /// \returns  nullptr if all are live, or too many in a row; or out of memory.
  void* allocate() noexcept;
  /// The same after a first one.
  /// \returns  nullptr before it, too
  /// \cost     some 20 instructions
  void* allocate_another() noexcept;

  bool owns(const void* p) const noexcept {
    const std::uintptr_t start = start_.load(std::memory_order_acquire);
    return start != 0 && reinterpret_cast<std::uintptr_t>(p) - start < kReservedBytes;
  }

  /// Frees a block.
  /// \pre      owns(p)
  /// \errors   A pointer that is no live block is fatal, and so is a call that gives a size.
  /// \cost     some 15 instructions
  void deallocate(const void* p) noexcept;
  void deallocate(const void* p, const FreeCall& call) noexcept;
  /// Dies with a sentence if `p` is no live block; `action` is its first word.
  /// \pre  owns(p)
  void expect_live(const void* p, const char* action) noexcept;

  /// Reports on standard error an access that faulted.
  /// \returns  false if it was not to a block.
  /// \threads  A fault's handler.
  bool explain(const os::Fault& fault) const noexcept;

  /// Reserved addresses; 0 before the first block.
  std::size_t reserved_bytes() const noexcept {
    return start_.load(std::memory_order_relaxed) != 0 ? kReservedBytes : 0;
  }
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  enum class State : std::uint8_t { kNever, kLive, kFreed };

  bool start() noexcept STRATA_REQUIRES(lock_);
  std::size_t offset_of(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - start_.load(std::memory_order_relaxed);
  }
  /// relaxed: nothing is ever written to a block.
  std::atomic_ref<State> state_at(std::size_t offset) const noexcept {
    return std::atomic_ref<State>(states_[offset / kBlockBytes]);
  }

  Lock lock_{LockRank::kEmptyBlocks};
  os::PageSource& pages_;
  MetadataArena& metadata_;
  // Written once, under the lock: release after the states are there, acquire by readers.
  std::atomic<std::uintptr_t> start_{0};
  State* states_ = nullptr;           // [kBlocks]; written once, under the lock
  std::atomic<std::size_t> next_{0};  // relaxed: where the circular search goes on
};

}  // namespace strata
