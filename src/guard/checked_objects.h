#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "central/central.h"
#include "guard/allocation.h"
#include "size_class/size_class_map.h"
#include "span/page_heap.h"
#include "span/page_map.h"

namespace strata {

/// The small objects under full checks. Its record in the span says of each object
///   kUnused       never handed out since its span was made; its contents are not known
///   kLive         the program's; what follows the bytes it asked for is filled (slack)
///   kQuarantined  freed and filled, and waiting; to Central it is still claimed
///   kFree         in its span, filled
///
/// An object is placed anywhere in its span, so that what follows it is a different object each
/// time. A freed one waits in its class's quarantine, the oldest leaves first: a late write finds
/// it there rather than in the hands of a new owner. Contents are verified
///   at free        its slack, and what is on both sides: overflow and underflow
///   after that     the whole object, when it leaves the quarantine and when it is handed out again
///   at the end     all of it, in every state: verify_all()
/// The caller leaves kLeastSlack bytes of every object unused, so that the first byte after any is
/// watched. On each side that is the slack of a live object, the fill of a freed one, and of one
/// that was never handed out its edges, which are filled for that. Before the first object of a
/// span nothing is watched, nor after the last one's slack.
/// \errors   What is found is fatal, with its sentence.
/// \threads  Any number at once; a lock per class, around the CentralList's.
/// \source   The quarantine and the slack: AddressSanitizer (Serebryany et al., 2012); random
///           placement: DieHard (Berger and Zorn, 2006).
class CheckedObjects {
 public:
  // Chosen: any access of up to 16 bytes that begins where an object ends.
  static constexpr std::size_t kLeastSlack = 16;

  constexpr CheckedObjects(Central& central, const PageMap& map, MetadataArena& metadata) noexcept
      : central_(central), map_(map), metadata_(metadata) {}
  CheckedObjects(const CheckedObjects&) = delete;
  CheckedObjects& operator=(const CheckedObjects&) = delete;

  /// Before the first object. Without it no class has bookkeeping.
  /// \param seed  where the places of this run begin
  /// \returns     False when out of memory; it can be tried again.
  bool start(std::uint64_t seed) noexcept;

  /// \pre      allocation.bytes + kLeastSlack <= bytes_of(size_class).
  /// \returns  The object, marked if it was fresh (FreeObject); nullptr when out of memory.
  void* allocate(unsigned size_class, const Allocation& allocation) noexcept;

  /// Takes back an object.
  /// \errors  A pointer that is no live object of the class is fatal.
  void deallocate(unsigned size_class, void* p, const FreeCall& call) noexcept;

  /// The bytes that were asked for at `p`.
  /// \errors  The same; `action` is the sentence's first word.
  std::size_t requested_bytes(unsigned size_class, const void* p, const char* action) noexcept;

  /// Sends all that waits to its spans; nothing does before start().
  /// \returns  true if anything did
  bool flush_quarantine() noexcept;

  /// Nothing waits any more; who calls this gives the spans back.
  /// \threads  no other thread uses it at the same time
  void forget_objects() noexcept;

  /// Looks at every object of `pages`.
  /// \errors  What was written where the program has nothing to write is fatal.
  /// \cost    reads all that is filled
  void verify_all(PageHeap& pages) noexcept;

  std::size_t quarantined_objects(unsigned size_class) noexcept;

  void hold_locks_for_fork() noexcept;

 private:
  // Chosen: what waits of one class.
  static constexpr std::size_t kQuarantineBytes = 64 * 1024;
  static constexpr std::size_t kMinQuarantined = 4;
  static constexpr std::size_t kMaxQuarantined = 256;

  /// Its lock also guards the records of the class's spans.
  struct Class {
    Lock lock{LockRank::kCheckedObjects};
    // A ring of quarantine_capacity() slots, made at the first free.
    void** waiting STRATA_GUARDED_BY(lock) = nullptr;
    std::uint32_t oldest STRATA_GUARDED_BY(lock) = 0;
    std::uint32_t count STRATA_GUARDED_BY(lock) = 0;
    std::uint64_t draws STRATA_GUARDED_BY(lock) = 0;
  };
  struct Place {
    Span* span;
    std::uint32_t index;
  };

  std::span<Class> classes() const noexcept {
    return {classes_, classes_ != nullptr ? SizeClassMap::kCount : 0};
  }
  static constexpr std::size_t quarantine_capacity(unsigned size_class) noexcept;
  static constexpr std::size_t most_quarantined_bytes() noexcept;
  /// \pre  for this and release(), the class's lock is held
  Place find_live(unsigned size_class, const void* p, const char* action) const noexcept;
  std::uint64_t draw(Class& of_class, unsigned size_class) noexcept STRATA_REQUIRES(of_class.lock);
  void put_into_quarantine(Class& of_class, unsigned size_class, void* p) noexcept
      STRATA_REQUIRES(of_class.lock);
  void release_oldest(Class& of_class, unsigned size_class, std::size_t capacity) noexcept
      STRATA_REQUIRES(of_class.lock);
  void release(unsigned size_class, void* p) noexcept;

  Central& central_;
  const PageMap& map_;
  MetadataArena& metadata_;
  std::uint64_t seed_ = 0;
  Class* classes_ = nullptr;  // [SizeClassMap::kCount] from start() on
};

}  // namespace strata
