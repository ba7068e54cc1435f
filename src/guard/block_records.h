#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "guard/allocation.h"

namespace strata {

/// What was asked for at each live large and huge block, by address.
/// Always: the table holds count_ entries and is at most half full.
/// \threads  Any number at once; one lock.
class BlockRecords {
 public:
  explicit constexpr BlockRecords(MetadataArena& metadata) noexcept : metadata_(metadata) {}
  BlockRecords(const BlockRecords&) = delete;
  BlockRecords& operator=(const BlockRecords&) = delete;

  /// \returns  False when out of memory.
  bool insert(const void* block, const Allocation& allocation) noexcept;
  /// \returns  False if nothing is known of the address.
  bool find(const void* block, Allocation& out) noexcept;
  bool remove(const void* block, Allocation& out) noexcept;

  Lock& lock() noexcept { return lock_; }  ///< for fork

 private:
  struct Entry {
    std::uintptr_t address;  // 0: empty
    Allocation allocation;
  };
  static constexpr std::size_t kFirstEntries = 256;

  std::size_t slot_of(std::uintptr_t address) const noexcept;
  Entry* find_entry(const void* block) noexcept;
  bool make_room() noexcept;
  void put(const Entry& entry) noexcept;

  Lock lock_{LockRank::kBlockRecords};
  MetadataArena& metadata_;

  // All below is guarded by lock_.
  Entry* table_ = nullptr;  // open addressing, linear probing
  std::size_t entries_ = 0;
  std::size_t count_ = 0;
};

}  // namespace strata
