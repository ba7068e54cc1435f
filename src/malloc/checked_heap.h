#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/shared_address_table.h"
#include "guard/allocation.h"
#include "guard/checked_objects.h"
#include "malloc/engine.h"

namespace strata {

/// The malloc under full checks: every allocation and every free passes here, for any size.
///   small          CheckedObjects
///   large, huge    those that find no place between guards (Guards::blocks): what was asked for
///                  is in a table; the bytes after it are watched up to kMostBlockSlack. Freed
///                  ones are not filled; huge ones are unmapped at once, so that a late access is
///                  a fault.
/// realloc always moves, so that a pointer to the old place is one to freed memory.
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

  /// Before the first allocation, under full checks.
  /// \returns  False when out of memory; it can be tried again.
  bool start(std::uint64_t seed) noexcept { return objects_.start(seed); }

  /// Whether so many bytes and their slack are more than any object has.
  static constexpr bool is_block(std::size_t bytes) noexcept {
    return bytes > SizeClassMap::kMaxBytes - CheckedObjects::kLeastSlack;
  }

  /// \returns  Its address is nullptr when out of memory.
  Engine::Block allocate(const Allocation& allocation) noexcept;
  /// \param size_class  the page map's; 0: it has none
  void deallocate(void* p, unsigned size_class, const FreeCall& call) noexcept;
  /// What was asked for at `p`.
  /// \errors  A pointer that is not live is fatal; `action` is the sentence's first word.
  std::size_t requested_bytes(const void* p, const char* action) noexcept;

  /// Ends the wait of what is in quarantine.
  /// \returns  true if anything was
  bool flush_quarantine() noexcept { return objects_.flush_quarantine(); }
  /// Nothing is known of any object or block any more; who calls this gives them back.
  /// \threads  no other thread uses it at the same time
  void forget_all() noexcept {
    objects_.forget_objects();
    blocks_.forget_all();
  }
  /// Looks at all that is watched, live or not: what is never freed is never looked at otherwise.
  void verify_all() noexcept;
  CheckedObjects& objects() noexcept { return objects_; }

  void hold_locks_for_fork() noexcept;

 private:
  // Chosen: what an overflow writes first; watching all would touch pages that are not used.
  static constexpr std::size_t kMostBlockSlack = 1024;

  void verify_slack(const void* block, std::size_t bytes) noexcept;
  std::size_t watched_slack(const void* block, std::size_t bytes) noexcept;

  Engine& engine_;
  CheckedObjects objects_;
  SharedAddressTable<Allocation> blocks_;  // what was asked for at large and huge blocks
};

}  // namespace strata
