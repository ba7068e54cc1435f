#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"

namespace strata {

/// What a profile knows about live blocks that have no record beside them: the large ones, by
/// address.
/// Always: the table is at most half full, and every entry is found from its home without a gap.
/// \threads  Any number at once; one lock, not taken while the table is empty.
class LiveBlocks {
 public:
  struct Entry {
    std::uintptr_t address;  ///< 0: empty
    std::size_t bytes;
    std::uint32_t site;
  };

  explicit constexpr LiveBlocks(MetadataArena& metadata) noexcept : metadata_(metadata) {}
  LiveBlocks(const LiveBlocks&) = delete;
  LiveBlocks& operator=(const LiveBlocks&) = delete;

  /// \pre      `p` is not in the table.
  /// \returns  false when out of memory
  bool insert(const void* p, std::size_t bytes, std::uint32_t site) noexcept;
  /// \returns  The entry of `p`, which is in the table no longer; address 0 if it was not.
  Entry remove(const void* p) noexcept;

  std::size_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  Lock& lock() noexcept { return lock_; }  ///< for fork
  void check_invariants() noexcept;

 private:
  static constexpr std::size_t kFirstEntries = 256;

  std::size_t home_of(std::uintptr_t address) const noexcept;
  void place(const Entry& entry) noexcept;
  bool grow() noexcept;

  Lock lock_{LockRank::kWatcher};
  MetadataArena& metadata_;
  Entry* entries_ = nullptr;  // guarded by lock_
  std::size_t capacity_ = 0;  // a power of two or 0; guarded by lock_
  // Written under lock_. relaxed: whoever frees a block got it after it was inserted.
  std::atomic<std::size_t> count_{0};
};

}  // namespace strata
