#pragma once

#include <strata/detail/bits.hpp>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/idle_tally.h"
#include "base/lock.h"
#include "base/thread_annotations.h"
#include "central/tried.h"
#include "span/hole_batch.h"
#include "span/page.h"
#include "span/span_source.h"

namespace strata {

/// The spans of one size class in one shard. It hands out their objects and takes them back. A
/// CentralShard owns it.
///
/// An object is a bit of its span's bitmap. A claim takes whole words where it can: up to 64
/// neighbouring objects for one store. The fullest span serves first, so that nearly empty ones can
/// become empty; while the list compacts, spans at low addresses serve first. An empty span is kept
/// until its pages are needed or it has not been needed for a while, so a program that allocates a
/// batch, frees it and starts again finds its spans in place. The objects themselves are never read
/// or written.
///
/// While holes of spans go back to the kernel the lock is free, and these spans are in no list.
/// Their objects may come back, but they serve nobody until the call has ended.
///
/// Every object that comes back is verified. An address where no object starts, an object that is
/// already in its span (a double free) and an object of another class (a wrong sized delete) are
/// fatal.
/// \threads  Any number at once; one lock.
class CentralList {
 public:
  struct Statistics {
    std::size_t spans;
    std::size_t pages;
    std::size_t claimed_objects;  ///< live, or in some cache
    std::size_t free_objects;     ///< in spans
    std::size_t kept_spans;       ///< spans without a claimed object
    std::size_t waits;            ///< times a thread waited for a lock
  };

  constexpr CentralList(unsigned size_class, SpanSource& spans, IdleTally& tally,
                        unsigned shard = 0) noexcept
      : spans_(spans),
        tally_(tally),
        divider_(std::max(SizeClassMap::bytes_of(size_class), SizeClassMap::kGrain)),
        use_(spans.use_of(size_class)),
        objects_per_span_(static_cast<std::uint32_t>(
            span_pages_of(size_class) * kPageBytes /
            std::max(SizeClassMap::bytes_of(size_class), SizeClassMap::kGrain))),
        size_class_(static_cast<std::uint8_t>(size_class)),
        shard_(static_cast<std::uint8_t>(shard)),
        watched_from_(worth_compacting(size_class)) {}
  CentralList(const CentralList&) = delete;
  CentralList& operator=(const CentralList&) = delete;

  /// Claims up to `count` objects and writes them to end[-1], end[-2], …, so that a stack that ends
  /// there pops the lowest addresses first. Fresh objects are marked (FreeObject). Where the only
  /// free objects are in spans whose holes go back at the moment, waits for these.
  /// \returns  How many; fewer than asked if no span has a free object left or the limit forbids
  ///           touching it.
  /// \cost     One word of a bitmap per up to 64 objects.
  std::size_t claim(void** end, std::size_t count) noexcept;

  /// From which end of a span objects are claimed: two threads that claim from different ends
  /// seldom get neighbours.
  enum class From : std::uint8_t { kLowest, kHighest };
  /// Whether objects in lines where nobody has one come first: where small objects return in no
  /// order, two threads would otherwise get neighbours.
  enum class First : std::uint8_t { kAny, kWholeLines };

  /// As claim(), unless another thread holds the list.
  Tried try_claim(void** end, std::size_t count, From from = From::kLowest,
                  First first = First::kAny) noexcept;

  /// Claims one object anywhere in a span, chosen by `random`. Does not wait for holes: under full
  /// checks, which claim so, none goes back.
  /// \returns  The object, marked if it is fresh; nullptr where no span has a free object.
  void* claim_at_random(std::uint64_t random) noexcept;

  /// Whether all objects of a batch are of the list's class.
  enum class Classes : std::uint8_t { kOne, kAny };

  /// Takes back those of `count` objects that lie in this list's spans, and moves the others to the
  /// front. Objects that are marked fresh stay fresh.
  /// \returns  How many others there are: their spans have moved to another shard meanwhile.
  /// \errors   A pointer that is no claimed object of this class is fatal, with its sentence. With
  ///           kAny, one that is in no span is fatal; one of another class is left.
  std::size_t release(void** objects, std::size_t count, Classes classes = Classes::kOne) noexcept;

  /// The same for objects that lay idle in some cache since the last decommit_holes(): the next one
  /// counts them as unneeded, like the objects that were free in the span then. A span that becomes
  /// empty by this is destroyed.
  std::size_t release_idle(void** objects, std::size_t count,
                           Classes classes = Classes::kOne) noexcept;

  /// As release() with kOne, unless another thread holds the list: then all are left.
  struct Released {
    std::size_t left;
    bool was_busy;
  };
  Released try_release(void** objects, std::size_t count) noexcept;

  /// Whether an object of the list is free in its span.
  bool has(const void* object) noexcept;

  /// Ends the process: `object` was freed with a wrong class, or in the wrong heap.
  [[noreturn]] static void die_of_wrong_class(const SpanSource& spans, const void* object) noexcept;

  /// Adds a new span.
  void add(Span& span) noexcept;
  /// Adds a new span, then claims; at least one object.
  std::size_t add_and_claim(Span& span, void** end, std::size_t count) noexcept;

  /// Takes spans from another shard's list, then claims from its own. It takes spans without a
  /// claimed object: at least half of them, and until there are `count` objects. If there are none,
  /// it takes the emptiest span if `which` says so. It holds both locks: a span is always in a
  /// list, so that its objects can come back.
  /// \returns  How many objects; 0 if the other has no such span, or another thread holds it.
  enum class Which { kKept, kEmptiest };
  std::size_t claim_from(CentralList& other, Which which, void** end, std::size_t count) noexcept;

  /// Destroys up to `count` spans without a claimed object.
  /// \returns  how many
  std::size_t destroy_kept(std::size_t count, Was was = Was::kInUse) noexcept;
  /// Destroys those that were not needed since the last call of this.
  /// \returns  how many
  std::size_t destroy_unneeded() noexcept;

  /// Starts to compact if much was free ever since the last call: freed objects then bypass the
  /// bins of their class (central_list_compact.cpp says why). release() may start it, too; both may
  /// end it.
  void look() noexcept;
  /// A hint, without the lock.
  bool is_compacting() const noexcept { return is_compacting_.load(std::memory_order_relaxed); }

  /// Drops all spans; the caller gives their memory back.
  /// \threads  no other thread uses the list at the same time
  void forget_spans() noexcept;

  /// Reports the exact pending bytes to the tally.
  void tell_tally() noexcept;

  unsigned size_class() const noexcept { return size_class_; }
  unsigned shard() const noexcept { return shard_; }
  std::size_t span_bytes() const noexcept { return span_pages_of(size_class_) * kPageBytes; }

  /// All spans, those without a claimed object, and free objects in all: hints, without the lock.
  std::size_t span_count() const noexcept { return span_count_.load(std::memory_order_relaxed); }
  std::size_t kept_spans() const noexcept { return kept_count_.load(std::memory_order_relaxed); }
  std::size_t free_objects() const noexcept { return free_.load(std::memory_order_relaxed); }
  /// Bytes of free objects on pages not decommitted yet: a hint, without the lock.
  std::size_t pending_bytes() const noexcept {
    return static_cast<std::size_t>(pending_.load(std::memory_order_relaxed));
  }

  /// Decommits the holes of spans: OS pages that hold only free objects. The objects stay in the
  /// span. Each span is examined once per change of its free objects.
  ///   kQuiet  only spans whose free objects have not changed since the last call
  ///   kAll    every span
  /// \returns  bytes decommitted
  /// \cost     a system call for the holes of some spans. Meanwhile the lock is free, and those
  ///           spans serve nobody.
  enum class Spans { kQuiet, kAll };
  std::size_t decommit_holes(Spans which) noexcept;
  /// Does so for some of the emptiest spans, until `bytes` or more are decommitted: spans of which
  /// a fourth became free since their holes were last decommitted. None, if another thread
  /// decommits holes of the list.
  std::size_t decommit_holes_of_emptiest(std::size_t bytes) noexcept;

  Statistics statistics() noexcept;
  void check_invariants() noexcept;
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for tests
  Lock& holes_lock() noexcept STRATA_RETURN_CAPABILITY(holes_lock_) { return holes_lock_; }
  void hold_locks_for_fork() noexcept {
    LocksInFork::hold(holes_lock_);
    LocksInFork::hold(lock_);
  }

 private:
  // Spans in use are listed at the place that is the bit width of free_count: 0 is full, 1 is one
  // object from full, the last one (4096 objects, 13 bits) is nearly empty. While the list
  // compacts, spans with free objects are listed by address: place 1 has the lowest part of the
  // addresses, the last place the nearly empty spans.
  static constexpr unsigned kPlaces = 14;
  static constexpr unsigned kNearlyEmpty = kPlaces - 1;
  // Chosen: a span with a smaller share of its objects claimed serves last.
  static constexpr std::uint32_t kNearlyEmptyShare = 8;
  static constexpr std::uint32_t kNonempty = ~std::uint32_t{1};  // places with free objects
  static_assert((kPageBytes / SizeClassMap::kGrain) >> (kPlaces - 1) == 0,
                "a free count has fewer bits than places");

  /// Adds to a sum that is written under a lock and read without it.
  template <typename T>
  static void add_to(std::atomic<T>& sum, T amount) noexcept {
    sum.store(sum.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  std::size_t claim_locked(void** end, std::size_t count, From from = From::kLowest,
                           First first = First::kAny) noexcept STRATA_REQUIRES(lock_);
  std::size_t release_locked(void** objects, std::size_t count, Classes classes) noexcept
      STRATA_REQUIRES(lock_);
  void receive(Span& span) noexcept STRATA_REQUIRES(lock_);
  Span* give(Which which) noexcept STRATA_REQUIRES(lock_);
  Span* take_span_with_free_objects() noexcept STRATA_REQUIRES(lock_);
  Span* find_without_holes() noexcept STRATA_REQUIRES(lock_);
  std::ptrdiff_t count_taken(Span& span, std::size_t taken) noexcept STRATA_REQUIRES(lock_);
  void add_pending(std::ptrdiff_t bytes) noexcept STRATA_REQUIRES(lock_);
  void take_back_marks(void** objects, std::size_t count, Classes classes) noexcept
      STRATA_REQUIRES(lock_);
  Span* own_span_of(const void* object, Classes classes) const noexcept STRATA_REQUIRES(lock_);
  /// The index of the object that starts at `p`; object_count or more if none does, wherever `p`
  /// points.
  std::size_t index_in(const Span& span, const void* p) const noexcept {
    return divider_.quotient(reinterpret_cast<std::uintptr_t>(p) -
                             reinterpret_cast<std::uintptr_t>(span.start));
  }
  void** put_neighbours(Span& span, void** objects, void** end) const noexcept;
  void relist(Span& span, std::uint32_t free_before) noexcept STRATA_REQUIRES(lock_);
  bool put_back(Span& span, std::uint32_t free_before) noexcept STRATA_REQUIRES(lock_);
  bool is_due(Span& span, Spans which) noexcept STRATA_REQUIRES(lock_);
  std::size_t add_holes_of(Span& span, HoleBatch& holes) noexcept STRATA_REQUIRES(lock_);
  /// Whether spans come back to the front of their list or to its back.
  enum class Comes : bool { kFirst, kLast };
  std::size_t give_back(HoleBatch& holes, Comes comes) noexcept STRATA_REQUIRES(holes_lock_, lock_);
  std::size_t free_in_use() const noexcept;
  std::size_t objects_in_use() const noexcept STRATA_REQUIRES(lock_);
  bool has_free(std::size_t share) const noexcept STRATA_REQUIRES(lock_);
  bool has_much_free() const noexcept STRATA_REQUIRES(lock_);
  bool has_little_free() const noexcept STRATA_REQUIRES(lock_);
  void count_returned(std::size_t count) noexcept STRATA_REQUIRES(lock_);
  std::size_t used_spans() const noexcept STRATA_REQUIRES(lock_);
  void judge() noexcept STRATA_REQUIRES(lock_);
  void begin_turn() noexcept STRATA_REQUIRES(lock_);
  void compact(bool is_on) noexcept STRATA_REQUIRES(lock_);
  /// Makes the span homeward if the list compacts, and not homeward otherwise.
  void follow(Span& span) noexcept STRATA_REQUIRES(lock_) {
    if (span.is_homeward != is_compacting()) spans_.set_homeward(span, is_compacting());
  }
  void follow_turn(Span& span, std::uint32_t free_before) noexcept STRATA_REQUIRES(lock_);
  void note_place(const Span& span) noexcept STRATA_REQUIRES(lock_) {
    const auto start = reinterpret_cast<std::uintptr_t>(span.start);
    next_lowest_ = std::min(next_lowest_, start);
    next_highest_ = std::max(next_highest_, start);
  }
  bool lists_anew() const noexcept STRATA_REQUIRES(lock_) { return anew_at_ != kPlaces; }
  [[gnu::cold, gnu::noinline]] void list_some_anew() noexcept STRATA_REQUIRES(lock_);
  /// The place of a span in use.
  unsigned place_of(const Span& span) const noexcept STRATA_REQUIRES(lock_) {
    return is_compacting() ? place_in_order(span)
                           : static_cast<unsigned>(std::bit_width(span.free_count));
  }
  unsigned place_in_order(const Span& span) const noexcept STRATA_REQUIRES(lock_);
  /// A span with so many free objects is nearly empty.
  std::uint32_t nearly_empty_from() const noexcept {
    return objects_per_span_ - objects_per_span_ / kNearlyEmptyShare;
  }
  [[gnu::cold]] void list_in_order(Span& span) noexcept STRATA_REQUIRES(lock_);
  /// With how many free objects a span of that list has to move to another one.
  std::uint32_t relist_at(unsigned place) const noexcept STRATA_REQUIRES(lock_) {
    if (!is_compacting()) return std::min(std::uint32_t{1} << place, objects_per_span_);
    if (place == 0) return 1;
    return place == kNearlyEmpty ? objects_per_span_ : nearly_empty_from();
  }
  void list_at(unsigned place, Span& span) noexcept STRATA_REQUIRES(lock_) {
    span.place = static_cast<std::uint8_t>(place);
    span.turn = turn_;
    span.relist_at = relist_at(place);
    by_place_[place].push_front(span);
    ++listed_[place];
    nonempty_ |= kNonempty & 1u << place;
  }
  void list(Span& span) noexcept STRATA_REQUIRES(lock_);
  void unlist(Span& span, std::uint32_t free_count) noexcept STRATA_REQUIRES(lock_);
  void uncount(Span& span) noexcept STRATA_REQUIRES(lock_);

  // Chosen: other threads wait for the lock while so many spans are examined.
  static constexpr unsigned kLooksPerHold = 256;
  /// seen_free of a span after a claim: differs from every count of free objects.
  static constexpr std::uint32_t kNotSeen = ~std::uint32_t{0};
  /// relist_at of a span in no list: more than it has objects.
  static constexpr std::uint32_t kNever = ~std::uint32_t{0};
  // Chosen: a class that wastes less, or a smaller part of the heap, is not worth compacting.
  static constexpr std::size_t kWasteBytes = std::size_t{1} << 20;
  static constexpr std::size_t kWasteShare = 256;
  // Chosen: most of a free object this large goes back as a hole. Of one of 4.5 KiB, an eighth
  // does.
  static constexpr std::size_t kCompactsBelowBytes = 8192;
  /// From how many free objects on compacting is worth it.
  static constexpr std::size_t worth_compacting(unsigned size_class) noexcept {
    const std::size_t bytes = SizeClassMap::bytes_of(size_class);
    return bytes == 0 || bytes >= kCompactsBelowBytes ? ~std::size_t{0} : kWasteBytes / bytes;
  }

  // Chosen: how far a list may drift before it reports to the tally. The tally's error is at most
  // this for each shard and class; a batch that goes to and fro stays below it.
  static constexpr std::ptrdiff_t kSaidAbove = 64 * 1024;
  static constexpr std::ptrdiff_t kSaidAboveObjects = 32;
  static constexpr std::ptrdiff_t kSaidAboveAtMost = 512 * 1024;

  // A line that few batches write, since threads of other shards and lanes read it.
  SpanSource& spans_;
  IdleTally& tally_;
  const detail::ExactDivider divider_;  // by the class's size; class 0 is never released
  const std::uint32_t use_;             // Span::use of its spans
  const std::uint32_t objects_per_span_;
  const std::uint8_t size_class_;
  const std::uint8_t shard_;
  // Written under lock_, read anywhere as hints (relaxed), like the atomics below.
  std::atomic<bool> is_compacting_{false};
  std::atomic<std::uint32_t> kept_count_{0};

  // Held while holes of some spans are decommitted: by one thread at a time, and fork() waits for
  // it. Taken before lock_.
  Lock holes_lock_{LockRank::kCentral};

  // Everything below is written under lock_, by each batch.
  alignas(detail::kCacheLineBytes) Lock lock_{LockRank::kCentral};
  // Bit p of kNonempty: by_place_[p] has a span.
  std::uint32_t nonempty_ STRATA_GUARDED_BY(lock_) = 0;
  IntrusiveList<Span> by_place_[kPlaces] STRATA_GUARDED_BY(lock_);
  std::uint32_t listed_[kPlaces] STRATA_GUARDED_BY(lock_) = {};  // how many spans by_place_[p] has
  // Every object is free, and all of it is held; latest first.
  IntrusiveList<Span> kept_ STRATA_GUARDED_BY(lock_);
  std::size_t least_kept_ STRATA_GUARDED_BY(lock_) = 0;  // since the last destroy_unneeded()
  // How many objects have to be free before returned ones are counted. 0 while the list compacts,
  // and until all spans have followed its end.
  std::size_t watched_from_ STRATA_GUARDED_BY(lock_);
  // A turn begins when compacting begins, ends or goes on after judge(). Spans are put in the order
  // of the new turn some at a time. Still to do: anew_left_ spans at anew_at_, and all lists
  // after it.
  std::uint8_t turn_ STRATA_GUARDED_BY(lock_) = 0;
  std::uint8_t anew_at_ STRATA_GUARDED_BY(lock_) = kPlaces;
  std::uint32_t anew_left_ STRATA_GUARDED_BY(lock_) = 0;
  // While it compacts: the lowest address of its spans when the turn began, and the size of each
  // list's part of the addresses.
  std::uintptr_t lowest_ STRATA_GUARDED_BY(lock_) = 0;
  std::uintptr_t address_step_ STRATA_GUARDED_BY(lock_) = 1;
  // The range of the spans that came, or were put in order, since then.
  std::uintptr_t next_lowest_ STRATA_GUARDED_BY(lock_) = ~std::uintptr_t{0};
  std::uintptr_t next_highest_ STRATA_GUARDED_BY(lock_) = 0;
  // Objects returned while much was free, or since compacting began or was judged.
  std::size_t returned_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t began_ STRATA_GUARDED_BY(lock_) = 0;  // used_spans() then
  std::size_t began_claimed_ STRATA_GUARDED_BY(lock_) = 0;
  std::uint32_t patience_ STRATA_GUARDED_BY(lock_) = 1;  // grows while compacting gains nothing
  // Spans in no list while their holes are decommitted; and of them, those that were in the list of
  // nearly empty ones.
  std::size_t away_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t nearly_empty_away_ STRATA_GUARDED_BY(lock_) = 0;
  std::ptrdiff_t said_ STRATA_GUARDED_BY(lock_) = 0;  // the part of pending_ that the tally knows
  std::atomic<std::size_t> span_count_{0};
  std::atomic<std::ptrdiff_t> pending_{0};
  std::atomic<std::size_t> free_{0};
};

}  // namespace strata
