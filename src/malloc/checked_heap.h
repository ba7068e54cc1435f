#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/shared_address_table.h"
#include "guard/allocation.h"
#include "guard/checked_objects.h"
#include "malloc/engine.h"

namespace strata {

/// The malloc under full checks. MallocInstance owns it and sends it every allocation and every
/// free of any size.
///   small          CheckedObjects
///   large, huge    those that find no place between guards (Guards::blocks): a table holds the
///   bytes asked for, and up to kMostBlockSlack bytes after them are watched. Freed blocks are not
///   filled; huge ones are unmapped at once, so that a late access is a fault.
/// realloc always moves, so that a pointer to the old place points to freed memory.
/// \errors   Misuse is fatal, with its sentence.
/// \threads  Any number at once.
class CheckedHeap {
 public:
  explicit constexpr CheckedHeap(Engine& engine) noexcept
      : engine_(engine),
        objects_(engine.central(), engine.map(), engine.metadata()),
        blocks_(engine.metadata(), LockRank::kBlockRecords) {}
  CheckedHeap(const CheckedHeap&) = delete;
  CheckedHeap& operator=(const CheckedHeap&) = delete;

  /// Called before the first allocation, under full checks.
  /// \returns  False when out of memory; it can be tried again.
  bool start(std::uint64_t seed) noexcept { return objects_.start(seed); }

  /// Whether so many bytes and their slack exceed every object.
  static constexpr bool is_block(std::size_t bytes) noexcept {
    return bytes > SizeClassMap::kMaxBytes - CheckedObjects::kLeastSlack;
  }

  /// \returns  Its address is nullptr when out of memory.
  Engine::Block allocate(const Allocation& allocation) noexcept;
  /// \param size_class  the page map's entry; 0: none
  void deallocate(void* p, unsigned size_class, const FreeCall& call) noexcept;
  /// What was asked for at `p`.
  /// \errors  A pointer that is not live is fatal; `action` is the sentence's first word.
  std::size_t requested_bytes(const void* p, const char* action) noexcept;

  /// Empties the quarantine.
  /// \returns  true if anything was
  bool flush_quarantine() noexcept { return objects_.flush_quarantine(); }
  /// Forgets all objects and blocks; the caller gives their memory back.
  /// \threads  no other thread uses it at the same time
  void forget_all() noexcept {
    objects_.forget_objects();
    blocks_.forget_all();
  }
  /// Verifies everything watched, live or not: blocks that are never freed are verified only here.
  void verify_all() noexcept;
  CheckedObjects& objects() noexcept { return objects_; }

  void hold_locks_for_fork() noexcept;

 private:
  // Chosen: an overflow writes these bytes first; watching all would touch unused pages.
  static constexpr std::size_t kMostBlockSlack = 1024;

  void verify_slack(const void* block, std::size_t bytes) noexcept;
  std::size_t watched_slack(const void* block, std::size_t bytes) noexcept;

  Engine& engine_;
  CheckedObjects objects_;
  SharedAddressTable<Allocation> blocks_;  // the bytes asked for, of large and huge blocks
};

}  // namespace strata
