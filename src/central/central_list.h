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
#include "span/hole_batch.h"
#include "span/page.h"
#include "span/span_source.h"

namespace strata {

/// The spans of one size class and one shard; hands out their objects and takes them back.
///
/// An object in a span is a bit of the span's bitmap. Claiming takes whole words where it can: up
/// to 64 neighbouring objects for one store. The fullest span serves first, so that nearly empty
/// ones get the chance to become empty; while the list compacts, one at a low address. An empty
/// span is kept until its pages are needed or it has not been needed for a while: a program that
/// allocates a batch, frees it and begins again finds its spans where they were. The objects
/// themselves are never read or written.
///
/// Every object that comes back is verified: an address where no object starts, an object that is
/// in its span already (a double free), an object of another class (a wrong sized delete) are
/// fatal.
/// \threads  Any number at once; one lock.
class CentralList {
 public:
  struct Statistics {
    std::size_t spans;
    std::size_t pages;
    std::size_t claimed_objects;  ///< live, or in some cache
    std::size_t free_objects;     ///< in spans
    std::size_t kept_spans;       ///< of all spans, those without a claimed object
    std::size_t waits;            ///< for the list's lock
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

  /// Claims up to `count` objects of the spans it has and writes them to end[-1], end[-2], …: a
  /// stack that ends there pops the lowest addresses first. What is fresh is marked (FreeObject).
  /// \returns  How many; fewer than asked where no span has a free object left, or the limit
  ///           forbids to touch it.
  /// \cost     One word of a bitmap per up to 64 objects.
  std::size_t claim(void** end, std::size_t count) noexcept;

  /// Which objects of a span are claimed first: two threads that take one each seldom get
  /// neighbours.
  enum class From : std::uint8_t { kLowest, kHighest };
  /// Whether those come before others that lie in lines of memory where nobody has an object: where
  /// small ones come back in no order, two threads that take some get neighbours otherwise.
  enum class First : std::uint8_t { kAny, kWholeLines };

  /// The same, unless another thread is at the list.
  struct Claimed {
    std::size_t count;
    bool was_busy;
  };
  Claimed try_claim(void** end, std::size_t count, From from = From::kLowest,
                    First first = First::kAny) noexcept;

  /// Claims one object anywhere in a span, by the bits of `random`.
  /// \returns  The object, marked if it is fresh; nullptr where no span has a free object.
  void* claim_at_random(std::uint64_t random) noexcept;

  /// Whether all objects that come back are of the list's class.
  enum class Classes : std::uint8_t { kOne, kAny };

  /// Takes back those of `count` objects that this list's spans hold; the others move to the front.
  /// What is still fresh, as its mark says, remains so.
  /// \returns  How many others there are: a span can have gone to another shard meanwhile.
  /// \errors   A pointer that is no claimed object of this class is fatal, with its sentence. Of
  ///           objects of any class, one that is in no span is; another class's is left.
  std::size_t release(void** objects, std::size_t count, Classes classes = Classes::kOne) noexcept;

  /// The same for objects that lay idle in some cache since the last decommit_holes(): the next one
  /// takes them for as unneeded as what the span had free then. A span that has become empty so is
  /// destroyed.
  std::size_t release_idle(void** objects, std::size_t count,
                           Classes classes = Classes::kOne) noexcept;

  /// The same, unless another thread is at the list: then all are left.
  struct Released {
    std::size_t left;
    bool was_busy;
  };
  Released try_release(void** objects, std::size_t count) noexcept;

  /// Whether an object of the list's is free in its span.
  bool has(const void* object) noexcept;

  /// Ends the process: `object` was freed as one of a class that is not its own, or in a heap that
  /// is not.
  [[noreturn]] static void die_of_wrong_class(const SpanSource& spans, const void* object) noexcept;

  /// Takes over a new span.
  void add(Span& span) noexcept;
  /// The same, and claims of what the list has then; at least one object.
  std::size_t add_and_claim(Span& span, void** end, std::size_t count) noexcept;

  /// Takes over spans of another shard's list, those without a claimed object until there are
  /// `count` objects and half of them at least, or, if it has none and `which` says so, the
  /// emptiest; and claims of what it has then. Both locks are held: at no time is a span in no
  /// list, where its objects could not come back.
  /// \returns  How many objects; 0 if the other has no such span, or another thread is at it.
  enum class Which { kKept, kEmptiest };
  std::size_t claim_from(CentralList& other, Which which, void** end, std::size_t count) noexcept;

  /// Destroys up to `count` spans that have no claimed object.
  /// \returns  how many
  std::size_t destroy_kept(std::size_t count, Was was = Was::kInUse) noexcept;
  /// Destroys those that were not needed since the last call.
  /// \returns  how many
  std::size_t destroy_unneeded() noexcept;

  /// Begins to compact if much was free since the last call all the time: what is freed passes by
  /// the bins of its class then (central_list_compact.cpp tells why). release() begins it, too, and
  /// either ends it.
  void look() noexcept;
  /// A hint, without the lock.
  bool is_compacting() const noexcept { return is_compacting_.load(std::memory_order_relaxed); }

  /// Has no spans any more; who calls this gives them back.
  /// \threads  no other thread uses the list at the same time
  void forget_spans() noexcept;

  /// Lets the tally know exactly what is pending.
  void tell_tally() noexcept;

  unsigned size_class() const noexcept { return size_class_; }
  unsigned shard() const noexcept { return shard_; }
  std::size_t span_bytes() const noexcept { return span_pages_of(size_class_) * kPageBytes; }

  /// Spans without a claimed object, and free objects of all: hints, without the lock.
  std::size_t kept_spans() const noexcept { return kept_count_.load(std::memory_order_relaxed); }
  std::size_t free_objects() const noexcept { return free_.load(std::memory_order_relaxed); }
  /// Bytes free in spans, on pages that were not decommitted yet: a hint, without the lock.
  std::size_t pending_bytes() const noexcept {
    return static_cast<std::size_t>(pending_.load(std::memory_order_relaxed));
  }

  /// Decommits the holes of spans: OS pages that hold nothing but free objects; the objects stay in
  /// the span. Each span is looked at once per change of its free objects.
  ///   kQuiet  only spans whose free objects have stayed the same since the last call
  ///   kAll    every span
  /// \returns  bytes decommitted
  /// \cost     a system call for the holes of some spans, under the lock
  enum class Spans { kQuiet, kAll };
  std::size_t decommit_holes(Spans which) noexcept;
  /// The same for some of the emptiest spans, until `bytes` or more are decommitted: those of which
  /// a fourth became free since they were last looked at.
  std::size_t decommit_holes_of_emptiest(std::size_t bytes) noexcept;

  Statistics statistics() noexcept;
  void check_invariants() noexcept;
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  // Spans in use are listed by the bit width of free_count: width 0 is full, 1 is one object from
  // full, the widest (4096 objects, 13 bits) is nearly empty. While the list compacts, those with
  // free objects are listed by address: 1 is the lowest part of the addresses, the last list has
  // those that are nearly empty.
  static constexpr unsigned kWidths = 14;
  static constexpr unsigned kNearlyEmpty = kWidths - 1;
  // Chosen: a span with fewer objects than this share serves last.
  static constexpr std::uint32_t kNearlyEmptyShare = 8;
  static constexpr std::uint32_t kNonempty = ~std::uint32_t{1};  // widths with free objects
  static_assert((kPageBytes / SizeClassMap::kGrain) >> (kWidths - 1) == 0,
                "a free count has fewer bits than lists");

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
  void count_taken(Span& span, std::size_t taken, std::ptrdiff_t& pending) noexcept
      STRATA_REQUIRES(lock_);
  void add_pending(std::ptrdiff_t bytes) noexcept STRATA_REQUIRES(lock_);
  void take_back_marks(void** objects, std::size_t count, Classes classes) noexcept
      STRATA_REQUIRES(lock_);
  Span* own_span_of(const void* object, Classes classes) const noexcept STRATA_REQUIRES(lock_);
  /// The object of the span that starts at `p`; no index of one if none does, wherever `p` points.
  std::size_t index_in(const Span& span, const void* p) const noexcept {
    return divider_.quotient(reinterpret_cast<std::uintptr_t>(p) -
                             reinterpret_cast<std::uintptr_t>(span.start));
  }
  void** put_neighbours(Span& span, void** objects, void** end) const noexcept;
  void relist(Span& span, std::uint32_t free_before) noexcept STRATA_REQUIRES(lock_);
  bool is_due(Span& span, Spans which) noexcept STRATA_REQUIRES(lock_);
  std::size_t add_holes_of(Span& span, HoleBatch& holes) noexcept STRATA_REQUIRES(lock_);
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
  /// The span becomes homeward, or no longer is, as the list does.
  void follow(Span& span) noexcept STRATA_REQUIRES(lock_) {
    if (span.is_homeward != is_compacting()) spans_.set_homeward(span, is_compacting());
  }
  void follow_turn(Span& span, std::uint32_t free_before) noexcept STRATA_REQUIRES(lock_);
  void note_place(const Span& span) noexcept STRATA_REQUIRES(lock_) {
    const auto start = reinterpret_cast<std::uintptr_t>(span.start);
    next_lowest_ = std::min(next_lowest_, start);
    next_highest_ = std::max(next_highest_, start);
  }
  bool lists_anew() const noexcept STRATA_REQUIRES(lock_) { return anew_at_ != kWidths; }
  [[gnu::cold, gnu::noinline]] void list_some_anew() noexcept STRATA_REQUIRES(lock_);
  /// Which list a span in use is in, in general and while the list compacts.
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
  /// With how many free objects a span of that list belongs to another one.
  std::uint32_t relist_at(unsigned place) const noexcept STRATA_REQUIRES(lock_) {
    if (!is_compacting()) return std::min(std::uint32_t{1} << place, objects_per_span_);
    if (place == 0) return 1;
    return place == kNearlyEmpty ? objects_per_span_ : nearly_empty_from();
  }
  void list_at(unsigned place, Span& span) noexcept STRATA_REQUIRES(lock_) {
    span.place = static_cast<std::uint8_t>(place);
    span.turn = turn_;
    span.relist_at = relist_at(place);
    by_free_[place].push_front(span);
    ++listed_[place];
    nonempty_ |= kNonempty & 1u << place;
  }
  void list(Span& span) noexcept STRATA_REQUIRES(lock_);
  void unlist(Span& span, std::uint32_t free_count) noexcept STRATA_REQUIRES(lock_);
  void remove(Span& span) noexcept STRATA_REQUIRES(lock_);

  // Chosen: the class's other users wait for at most so many spans' system calls, or so many looks
  // at spans, some 50 µs either way.
  static constexpr unsigned kSpansPerHold = 16;
  static constexpr unsigned kLooksPerHold = 256;
  /// seen_free of a span that objects were taken from: equal to no count of free objects.
  static constexpr std::uint32_t kNotSeen = ~std::uint32_t{0};
  // Chosen: a class that holds less in vain is not worth it, nor is a smaller part of the heap.
  static constexpr std::size_t kWasteBytes = std::size_t{1} << 20;
  static constexpr std::size_t kWasteShare = 256;
  // Chosen: of a free object as large as this the kernel gets back most. Of one of 4.5 KiB it is
  // an eighth.
  static constexpr std::size_t kCompactsBelowBytes = 8192;
  /// How many free objects are.
  static constexpr std::size_t worth_compacting(unsigned size_class) noexcept {
    const std::size_t bytes = SizeClassMap::bytes_of(size_class);
    return bytes == 0 || bytes >= kCompactsBelowBytes ? ~std::size_t{0} : kWasteBytes / bytes;
  }

  // Chosen: what a list may have gathered before it says so. Shards and classes times this is what
  // the tally may be wrong by; a batch of objects that goes to and fro stays below it.
  static constexpr std::ptrdiff_t kSaidAbove = 64 * 1024;
  static constexpr std::ptrdiff_t kSaidAboveObjects = 32;
  static constexpr std::ptrdiff_t kSaidAboveAtMost = 512 * 1024;

  // A line of memory that few batches write, since threads of other shards and lanes read it.
  SpanSource& spans_;
  IdleTally& tally_;
  const detail::ExactDivider divider_;  // by the class's size; of class 0 nothing is ever released
  const std::uint32_t use_;             // what its spans say
  const std::uint32_t objects_per_span_;
  const std::uint8_t size_class_;
  const std::uint8_t shard_;
  // Written under lock_, read anywhere, as hints (relaxed); so are the atomic ones below.
  std::atomic<bool> is_compacting_{false};
  std::atomic<std::uint32_t> kept_count_{0};

  // All below is written under lock_, by each batch.
  alignas(detail::kCacheLineBytes) Lock lock_{LockRank::kCentral};
  // Bit w of kNonempty: by_free_[w] has a span.
  std::uint32_t nonempty_ STRATA_GUARDED_BY(lock_) = 0;
  IntrusiveList<Span> by_free_[kWidths] STRATA_GUARDED_BY(lock_);
  std::uint32_t listed_[kWidths] STRATA_GUARDED_BY(lock_) = {};  // how many spans by_free_[w] has
  IntrusiveList<Span> kept_
      STRATA_GUARDED_BY(lock_);  // every object is free, and all of it is held; latest first
  std::size_t least_kept_ STRATA_GUARDED_BY(lock_) = 0;  // since the last destroy_unneeded()
  // How many have to be free before what comes back is counted; 0 while the list compacts, and
  // until all spans have followed the end of that.
  std::size_t watched_from_ STRATA_GUARDED_BY(lock_);
  // Each time that it begins or ends to compact, or goes on with it, is a turn. Spans are put in
  // the order of the new one some at a time. Left are anew_left_ of the list anew_at_, and all
  // lists after it.
  std::uint8_t turn_ STRATA_GUARDED_BY(lock_) = 0;
  std::uint8_t anew_at_ STRATA_GUARDED_BY(lock_) = kWidths;
  std::uint32_t anew_left_ STRATA_GUARDED_BY(lock_) = 0;
  // While it compacts: where its spans lay when the turn began, and a part of that.
  std::uintptr_t lowest_ STRATA_GUARDED_BY(lock_) = 0;
  std::uintptr_t address_step_ STRATA_GUARDED_BY(lock_) = 1;
  // Where the spans lie that came, or were put in order, since then.
  std::uintptr_t next_lowest_ STRATA_GUARDED_BY(lock_) = ~std::uintptr_t{0};
  std::uintptr_t next_highest_ STRATA_GUARDED_BY(lock_) = 0;
  // Objects that came back: while there was much free, or since compacting began or was judged.
  std::size_t returned_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t began_ STRATA_GUARDED_BY(lock_) = 0;  // used_spans() then
  std::size_t began_claimed_ STRATA_GUARDED_BY(lock_) = 0;
  std::uint32_t patience_ STRATA_GUARDED_BY(lock_) = 1;  // grows where it was not worth it
  std::size_t span_count_ STRATA_GUARDED_BY(lock_) = 0;
  std::ptrdiff_t said_ STRATA_GUARDED_BY(lock_) = 0;  // of pending_, what the tally knows
  std::atomic<std::ptrdiff_t> pending_{0};
  std::atomic<std::size_t> free_{0};
};

}  // namespace strata
