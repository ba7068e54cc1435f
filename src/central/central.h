#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "central/central_shard.h"
#include "central/hole_exchange.h"
#include "size_class/size_class_map.h"

namespace strata {

/// The middle layer of the malloc: thread caches fill from it and flush to it. It owns the shards
/// (CentralShard), each of which has transfer caches and spans of every size class.
///
/// It begins with one shard. A thread that repeatedly waits for others in its shard moves to the
/// shard with the fewest threads, or to a new one, so only contention pays for shards. A thread
/// moves one class at a time. Waits give a class more shards than there are processors only if it
/// has enough memory for each. In a large heap on several processors, a thread that has already
/// moved moves a class of large objects the first time it has to wait.
///
/// A thread also moves a class if it gets batches of it in a shard where another thread gets some,
/// too. Otherwise neighbouring objects would belong to different threads, whose processors would
/// fight over cache lines. From then on its batches stay apart (keeps_apart). So do small objects
/// of any class that has moved, where there are several processors and the threads of all shards
/// may run at once.
///
/// A span belongs to one shard. A shard keeps the objects that its threads free, as long as they
/// free no more than they got. The surplus goes to the shards that own the spans, so objects that a
/// consumer frees return to their producer.
///
/// Before the heap grows for one shard, free memory of the others serves it: objects in their
/// transfer caches, empty spans of any class, spans of shards without threads, and spans of shards
/// that have plenty. A claim that stays apart uses only spans of shards without threads and pages
/// of other classes' empty spans. It uses the rest only if the heap cannot grow.
/// \threads  Any number at once; a lock for each list and each transfer cache.
class Central {
 public:
  using ClassStatistics = CentralShard::ClassStatistics;

  static constexpr unsigned kMostShards = 64;
  /// Chosen: a batch of homeward objects.
  static constexpr std::size_t kMostHomeward = 128;

  /// A thread's place among the shards: the shard and the lane that serve each class.
  /// \threads  Its thread only.
  class Place {
   public:
    explicit Place(Central& central) noexcept : first_(&central.first_), shard_(&central.first_) {}

    /// Whether the class has moved to another shard since the last call.
    bool take_moved(unsigned size_class) noexcept {
      const bool has_moved = just_moved_[size_class];
      just_moved_[size_class] = false;
      return has_moved;
    }

   private:
    friend class Central;
    bool has_moved(unsigned size_class) const noexcept { return moved_[size_class]; }
    CentralShard& shard_of(unsigned size_class) const noexcept {
      return has_moved(size_class) ? *shard_ : *first_;
    }
    unsigned lane_of(unsigned size_class) const noexcept {
      return has_moved(size_class) ? own_lane_ : lane_;
    }

    CentralShard* const first_;
    CentralShard* shard_;        // its own; serves the classes that have moved
    bool has_thread_ = false;    // that shard counts the thread
    std::uint8_t lane_ = 0;      // since the last enter()
    std::uint8_t own_lane_ = 0;  // in its own shard, for classes that have moved
    std::bitset<SizeClassMap::kCount> moved_;
    std::bitset<SizeClassMap::kCount> just_moved_;
    std::uint32_t met_ = 0;  // +kClaimsPerWait for each busy lock, -1 for each free one
    std::uint32_t patience_ = kFirstPatience;
  };

  /// \param has_transfer  Without transfer caches, each object comes from its span and is verified
  ///                      as it returns.
  constexpr Central(SpanSource& spans, MetadataArena& metadata, bool has_transfer = true) noexcept
      : spans_(spans),
        metadata_(metadata),
        has_transfer_(has_transfer),
        first_(spans, metadata, tally_, 0, has_transfer),
        shards_{&first_} {}
  Central(const Central&) = delete;
  Central& operator=(const Central&) = delete;

  /// Sets how many shards there may be and how many threads run at once. Call before the first
  /// thread.
  void set_most_shards(unsigned count, unsigned processors) noexcept;
  /// From now on, a thread's first objects of a class may be of a larger class. Call before the
  /// first thread.
  void round_up_first_objects() noexcept { rounds_up_ = true; }

  /// Whether rounding up is on and the class has no span yet: a hint.
  bool may_round_up(unsigned size_class) const noexcept {
    return rounds_up_ && first_.list(size_class) == nullptr;
  }

  /// A thread starts or stops using the place.
  void enter(Place& place) noexcept;
  void leave(Place& place) noexcept;
  /// Like leave(), in the child of a fork, for a thread that it does not have. Does not write to
  /// the place: that would copy its page, and nobody uses it any more.
  void forget(const Place& place) noexcept;

  /// Moves up to `count` objects of the class to end[-1], end[-2], …
  /// \returns  How many, at least 1 unless out of memory.
  std::size_t claim(Place& place, unsigned size_class, void** end, std::size_t count) noexcept;
  /// The same for a thread without a place, from the first shard.
  std::size_t claim(unsigned size_class, void** end, std::size_t count) noexcept;

  /// Claims one object from a span, at a random position. Bypasses the transfer caches.
  /// \returns  nullptr when out of memory
  void* claim_at_random(unsigned size_class, std::uint64_t random) noexcept;

  /// Whether the object is free in its span.
  /// \pre  the object is of the class, and no transfer cache holds it
  bool has(unsigned size_class, const void* object) const noexcept {
    return owner_of(object).list(size_class)->has(object);
  }

  /// The lock of the list that has the object's span, for tests.
  /// \pre  the object is of the class
  Lock& list_lock_of(unsigned size_class, const void* object) const noexcept {
    return owner_of(object).list(size_class)->lock();
  }

  /// Takes back objects of the class, into transfer caches first. Reorders `objects`.
  void release(Place& place, unsigned size_class, void** objects, std::size_t count) noexcept;

  /// Returns objects directly to their spans and verifies them: a wrong one is fatal here.
  void release_to_spans(unsigned size_class, void** objects, std::size_t count,
                        Was was = Was::kInUse) noexcept;
  /// Does so for one object, unless another thread holds the list.
  /// \returns  whether it was taken back
  bool try_release_to_span(unsigned size_class, void* object) noexcept {
    const auto tried = owner_of(object).try_release_to_spans(size_class, &object, 1);
    return !tried.was_busy && tried.left == 0;
  }

  /// Returns homeward objects, which may be of any class, to their spans. Reorders `objects`.
  /// \pre      1 to kMostHomeward objects
  /// \returns  their bytes
  std::size_t release_homeward(void** objects, std::size_t count, Was was = Was::kInUse) noexcept;
  /// The class of a homeward object in transit; 0 if its span is gone because it was freed twice.
  unsigned class_of(const void* object) const noexcept {
    const Span* const span = spans_.map().span_of(object);
    return span != nullptr ? span->size_class : 0;
  }

  /// Moves objects that the transfer caches did not need since the last call to their spans,
  /// destroys kept spans that were not needed, and decommits the holes of spans that were not used
  /// since.
  void release_unneeded() noexcept;
  /// Does the same for all objects in transfer caches, all kept spans and all holes.
  /// \returns  bytes decommitted as holes
  std::size_t release_all() noexcept;

  /// Empties the transfer caches of the classes below `end_class` into the spans.
  void flush_transfer(unsigned end_class = SizeClassMap::kCount) noexcept;

  /// Destroys kept spans of about `bytes`. Their pages become idle in the page heap, usable by any
  /// class.
  /// \returns  bytes
  std::size_t destroy_kept(std::size_t bytes) noexcept;

  /// Called when the heap may have grown. Once it has grown enough, decommits as many bytes of
  /// holes in nearly empty spans, if there are such holes.
  /// \cost  a load, unless the heap has grown and much is free in spans
  void exchange_holes() noexcept {
    if (spans_.growth_bytes() >= next_hole_look_.load(std::memory_order_relaxed)) [[unlikely]]
      exchange_holes_if_due();
  }

  /// Drops all objects and spans; the caller gives their memory back.
  /// \threads  no other thread uses it at the same time
  void forget_spans() noexcept {
    for_each_shard([](CentralShard& shard) { shard.forget_spans(); });
    exchange_.forget(spans_.refilled_bytes());
  }

  /// Bytes of free objects: on committed pages of spans, and in transfer caches.
  /// \cost  a load per class and shard
  std::size_t idle_bytes() const noexcept;
  /// The same, holes included.
  /// \cost  the same
  std::size_t free_bytes() const noexcept;
  /// An estimate of idle_bytes(): what the shards have reported, off by some bytes per class and
  /// shard; 0 if the sum is negative.
  /// \cost  a load
  std::size_t pending_hint() const noexcept { return at_least_none(said_pending()); }
  /// The estimate of two Centrals together.
  static std::size_t pending_hint(const Central& one, const Central& other) noexcept {
    return at_least_none(one.said_pending() + other.said_pending());
  }

  /// Has every list report exactly, and returns the sum.
  /// \cost  a lock per class and shard
  std::size_t settle_pending_hint() noexcept;

  /// Moves the class to the thread's own shard. If it is there already, moves the thread to the
  /// shard with the fewest threads, or to a new one, if that helps. A place without a thread (its
  /// cache is being flushed) stays as it is.
  void move_on(Place& place, unsigned size_class) noexcept;

  /// Whether a thread's objects may come from spans of its own shard only, although the heap then
  /// grows while other shards have free objects. Not where shards far outnumber processors: most of
  /// the other shards' threads do not run then, and their free objects are better used. The
  /// exception is a small heap whose threads would share lines.
  bool keeps_apart(unsigned size_class) const noexcept;
  static constexpr bool shares_lines(unsigned size_class) noexcept {
    return CentralShard::shares_lines(size_class);
  }

  unsigned shard_count() const noexcept { return count_.load(std::memory_order_acquire); }
  ClassStatistics statistics(unsigned size_class) noexcept;
  void check_invariants() noexcept;

  void hold_locks_for_fork() noexcept {
    LocksInFork::hold(emptying_);
    LocksInFork::hold(lock_);
    for_each_shard([](CentralShard& shard) { shard.hold_locks_for_fork(); });
  }

 private:
  // Chosen: one lock found busy weighs as much as so many claims that found theirs free. A thread
  // moves when the balance reaches its patience. Each move doubles the patience, so threads that
  // meet because they pass objects to each other soon stay put.
  static constexpr std::uint32_t kClaimsPerWait = 64;
  static constexpr std::uint32_t kFirstPatience = 2 * kClaimsPerWait;
  static constexpr std::uint32_t kMostPatience = kFirstPatience << 12;
  // Chosen: from this size on, a few extra spans and cached objects do not show, and threads wait
  // for each other less. In a small heap they are some percent.
  static constexpr std::size_t kLargeBytes = std::size_t{32} << 20;
  // Chosen: a batch of fewer objects is none, however large they are.
  static constexpr std::size_t kLeastBatch = 8;
  // Chosen: on two processors only large batches stay apart. Otherwise `handover` took 1.03 to 1.09
  // of the memory there, and batches were no faster.
  static constexpr unsigned kFewProcessors = 2;
  // Chosen: how much growth is exchanged for holes at a time: one system call covers the holes of
  // several spans, and few of the program's allocations make one.
  static constexpr std::size_t kHolesAtOnce = std::size_t{256} << 10;

  template <typename Function>
  void for_each_shard(Function&& function) const noexcept {
    const unsigned count = shard_count();
    for (unsigned i = 0; i < count; ++i) function(*shards_[i]);
  }
  /// Calls `function(CentralShard&)` for the other shards, from the next one on, until one returns
  /// non-zero.
  /// \param index  the shard to leave out
  /// \returns      that value; 0 if there was none
  template <typename Function>
  std::size_t first_of_others(unsigned index, Function&& function) const noexcept {
    const unsigned count = shard_count();
    unsigned i = index;
    for (unsigned left = count - 1; left != 0; --left) {
      i = i + 1 < count ? i + 1 : 0;
      if (const std::size_t returned = function(*shards_[i])) return returned;
    }
    return 0;
  }
  std::ptrdiff_t said_pending() const noexcept { return tally_.said(); }
  static std::size_t at_least_none(std::ptrdiff_t bytes) noexcept {
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  }
  class Owners;
  CentralShard& owner_of(const void* object) const noexcept;
  /// Where a homeward object goes.
  struct HomewardList {
    std::uint8_t size_class;
    std::uint8_t shard;
    bool operator==(const HomewardList&) const = default;
  };
  HomewardList homeward_list_of(const void* object) const noexcept;
  std::size_t sort_homeward(void** objects, std::size_t count, Was was) noexcept;
  void note_met(Place& place, unsigned size_class) noexcept;
  bool is_left_behind(const Place& place, unsigned size_class) const noexcept;
  bool is_worth_a_shard(unsigned size_class) const noexcept;
  void note_batch(Place& place, CentralShard& shard, unsigned size_class) noexcept;
  static bool is_batch(unsigned size_class, std::size_t count) noexcept;
  bool claims_apart(const Place& place, const CentralShard& shard, unsigned size_class,
                    std::size_t count) const noexcept;
  CentralList::First claimed_first(unsigned size_class) const noexcept;
  bool seem_to_be_of(const CentralShard& shard, void* const* objects,
                     std::size_t count) const noexcept;
  bool is_large() const noexcept { return spans_.used_bytes() >= kLargeBytes; }
  std::size_t claim_past(CentralShard& busy, bool may_wait, unsigned size_class, void** end,
                         std::size_t count) noexcept;
  std::size_t release_past(CentralShard& busy, unsigned size_class, void** objects,
                           std::size_t count) noexcept;
  std::uint8_t least_used_lane() const noexcept STRATA_REQUIRES(lock_);
  std::uint8_t next_lane_of(const CentralShard& moved_to) const noexcept STRATA_REQUIRES(lock_);
  static void move_class(Place& place, unsigned size_class) noexcept;
  static void lengthen_patience(Place& place) noexcept;
  void move_thread(Place& place) noexcept;
  std::size_t claim_elsewhere(CentralShard& shard, unsigned size_class, void** end,
                              std::size_t count, bool is_apart) noexcept;
  std::size_t claim_the_last(CentralShard& shard, unsigned size_class, void** end,
                             std::size_t count) noexcept;
  enum class Need { kUsual, kUrgent, kOfItsOwn };
  std::size_t claim_from_others(CentralList& list, void** end, std::size_t count,
                                Need need) noexcept;
  Span* make_span_of_idle_pages(unsigned size_class, PagePlace place = PagePlace(0),
                                unsigned spared = 0) noexcept;
  CentralList* find_kept(unsigned spared = 0) const noexcept;
  enum class Look : bool { kIfDue, kAlways };
  bool empty_grown_transfer(Look look) noexcept;
  bool empty_what_has_grown() noexcept;
  void exchange_holes_if_due() noexcept;
  CentralShard* make_shard() noexcept STRATA_REQUIRES(lock_);

  SpanSource& spans_;
  MetadataArena& metadata_;
  const bool has_transfer_;
  unsigned processors_ = 1;  // this and rounds_up_: written before the first thread
  bool rounds_up_ = false;
  IdleTally tally_;
  CentralShard first_;
  // One thread at a time empties grown transfer caches. Only fork() waits for this lock.
  Lock emptying_{LockRank::kCentral};
  Lock lock_{LockRank::kCentral};
  unsigned most_ STRATA_GUARDED_BY(lock_) = 1;
  // Of all shards. A new thread gets the lane with the fewest.
  std::uint32_t threads_of_lane_[CentralShard::kMostLanes] STRATA_GUARDED_BY(lock_) = {};
  unsigned lanes_ STRATA_GUARDED_BY(lock_) = 1;
  // The shards and their count. Both change under lock_, as do each shard's thread counts. Read
  // without it: release after the shard is complete, acquire before it is used.
  std::atomic<unsigned> count_{1};
  CentralShard* shards_[kMostShards];
  // The class of a shard at which the next search for holes begins. relaxed: two may search at
  // once.
  std::atomic<unsigned> next_for_holes_{0};
  // Growth at which the next search for holes is due. relaxed: two may search at once.
  std::atomic<std::size_t> next_hole_look_{kHolesAtOnce};
  // Bytes in use when the last check found too little in grown transfer caches. relaxed: two may
  // check at once.
  std::atomic<std::size_t> used_without_grown_{0};
  HoleExchange exchange_;
};

}  // namespace strata
