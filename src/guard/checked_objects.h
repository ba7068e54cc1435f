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

/// The small objects under full checks. CheckedHeap owns them. A record in the span holds the state
/// of each object:
///   kUnused       never handed out since its span was made; contents unknown
///   kLive         the program's; the slack after the bytes it asked for is filled
///   kQuarantined  freed, filled and waiting; to Central it is still claimed
///   kFree         in its span, filled
///
/// Objects are placed at random in their span, so that a different object follows each time. A
/// freed one waits in its class's quarantine, which the oldest leaves first: a late write finds it
/// there and not in the hands of a new owner. Contents are verified
///   at free        the slack, and both sides: overflow and underflow
///   after that     the whole object, when it leaves the quarantine and when it is handed out again
///   at the end     everything, in every state: verify_all()
/// The caller leaves kLeastSlack bytes of every object unused, so that the first byte after any is
/// watched. Each side of an object is watched: the slack of a live neighbour, the fill of a freed
/// one, and the edges of one that was never handed out, which are filled for that. Nothing is
/// watched before a span's first object, nor after the last one's slack.
/// \errors   Misuse that is found is fatal, with its sentence.
/// \threads  Any number at once; a lock per class, around the CentralList's.
/// \source   The quarantine and the slack: AddressSanitizer (Serebryany et al., 2012); random
///           placement: DieHard (Berger and Zorn, 2006).
class CheckedObjects {
 public:
  // Chosen: covers any access of up to 16 bytes that begins where an object ends.
  static constexpr std::size_t kLeastSlack = 16;

  constexpr CheckedObjects(Central& central, const PageMap& map, MetadataArena& metadata) noexcept
      : central_(central), map_(map), metadata_(metadata) {}
  CheckedObjects(const CheckedObjects&) = delete;
  CheckedObjects& operator=(const CheckedObjects&) = delete;

  /// Call before the first object: it makes the classes' bookkeeping.
  /// \param seed  decides the random placement
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

  /// Sends all waiting objects to their spans; none wait before start().
  /// \returns  true if any waited
  bool flush_quarantine() noexcept;

  /// Drops all waiting objects; the caller gives the spans back.
  /// \threads  no other thread uses it at the same time
  void forget_objects() noexcept;

  /// Verifies every object of `pages`.
  /// \errors  A write where the program must not write is fatal.
  /// \cost    reads all that is filled
  void verify_all(PageHeap& pages) noexcept;

  std::size_t quarantined_objects(unsigned size_class) noexcept;

  void hold_locks_for_fork() noexcept;

 private:
  // Chosen: how much of one class waits.
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
