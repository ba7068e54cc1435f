#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "central/central_shard.h"
#include "central/hole_exchange.h"
#include "size_class/size_class_map.h"

namespace strata {

/// The objects of all classes, between threads: transfer caches first, then spans. Thread caches
/// are filled from it and flushed to it.
///
/// It begins as one shard. A thread that has to wait for others in its shard again and again moves
/// on to the one with the fewest threads, made for it if need be: so only contention pays for
/// shards. A span belongs to one shard. What a shard's threads free they get again, as long as they
/// free no more than they got; the rest goes to the shards of its spans, so that what a producer
/// allocates and a consumer frees comes back to the producer. A thread moves on with one class at a
/// time; with one of large objects it does so the first time that it has to wait, once it has moved
/// on with others, in a large heap on several processors.
///
/// A thread also moves on that gets batches of a class of which another thread of the shard gets
/// some: objects next to each other would belong to different threads, whose processors would take
/// lines of memory from each other. From then on its batches stay apart (keeps_apart), and so do,
/// where there are several processors and all shards' threads may run at once, small objects of
/// any class that has moved.
///
/// Before the heap grows for one shard, what is free in others serves it: what lies in their
/// transfer caches, empty spans of any class, spans of shards without threads, and what others have
/// more than enough of. What stays apart comes of shards without threads, and of the pages of other
/// classes' empty spans; of the rest only if the heap cannot grow.
/// \threads  Any number at once; a lock for each list and each transfer cache.
class Central {
 public:
  using ClassStatistics = CentralShard::ClassStatistics;

  static constexpr unsigned kMostShards = 64;

  /// A thread's place among the shards.
  /// \threads  Its thread only.
  class Place {
   public:
    explicit Place(Central& central) noexcept : first_(&central.first_), shard_(&central.first_) {}

    /// Whether the class has moved to another shard since the last call.
    bool take_moved(unsigned size_class) noexcept {
      const std::uint64_t bit = bit_of(size_class);
      const bool has_moved = (just_moved_[size_class / 64] & bit) != 0;
      just_moved_[size_class / 64] &= ~bit;
      return has_moved;
    }

   private:
    friend class Central;
    static constexpr std::uint64_t bit_of(unsigned size_class) noexcept {
      return std::uint64_t{1} << size_class % 64;
    }
    bool has_moved(unsigned size_class) const noexcept {
      return (moved_[size_class / 64] & bit_of(size_class)) != 0;
    }
    CentralShard& shard_of(unsigned size_class) const noexcept {
      return has_moved(size_class) ? *shard_ : *first_;
    }
    unsigned lane_of(unsigned size_class) const noexcept {
      return has_moved(size_class) ? own_lane_ : lane_;
    }

    CentralShard* const first_;
    CentralShard* shard_;        // its own: for the classes that have moved there
    bool has_thread_ = false;    // counted in that shard
    std::uint8_t lane_ = 0;      // since the last enter()
    std::uint8_t own_lane_ = 0;  // of the classes that have moved, in its own shard
    std::uint64_t moved_[(SizeClassMap::kCount + 63) / 64] = {};
    std::uint64_t just_moved_[(SizeClassMap::kCount + 63) / 64] = {};
    std::uint32_t met_ = 0;  // goes up with each lock that was taken, down with each that was not
    std::uint32_t patience_ = kFirstPatience;
  };

  /// \param has_transfer  without transfer caches each object comes from its span, and is verified
  ///                      as it returns
  constexpr Central(SpanSource& spans, MetadataArena& metadata, bool has_transfer = true) noexcept
      : spans_(spans),
        metadata_(metadata),
        has_transfer_(has_transfer),
        first_(spans, metadata, tally_, 0, has_transfer),
        shards_{&first_} {}
  Central(const Central&) = delete;
  Central& operator=(const Central&) = delete;

  /// How many shards there may be, and how many threads run at once. Before the first thread.
  void set_most_shards(unsigned count, unsigned processors) noexcept;
  /// The first objects that a thread needs of a class may be larger ones. Before the first thread.
  void round_up_first_objects() noexcept { rounds_up_ = true; }

  /// Whether that is so, and the class has no span yet: a hint.
  bool may_round_up(unsigned size_class) const noexcept {
    return rounds_up_ && first_.list(size_class) == nullptr;
  }

  /// A thread begins to use the place, or ends to.
  void enter(Place& place) noexcept;
  void leave(Place& place) noexcept;

  /// Moves up to `count` objects of the class to end[-1], end[-2], …
  /// \returns  How many, at least 1 unless out of memory.
  std::size_t claim(Place& place, unsigned size_class, void** end, std::size_t count) noexcept;
  /// The same for a thread without a place, from the first shard.
  std::size_t claim(unsigned size_class, void** end, std::size_t count) noexcept;

  /// Claims one object past the transfer cache, anywhere in its span.
  /// \returns  nullptr when out of memory
  void* claim_at_random(unsigned size_class, std::uint64_t random) noexcept;

  /// Whether an object is free in its span.
  /// \pre  it is one of the class, and no transfer cache has it
  bool has(unsigned size_class, const void* object) const noexcept {
    return owner_of(object).list(size_class)->has(object);
  }

  /// Takes back objects of the class, the transfer caches first. Their order changes.
  void release(Place& place, unsigned size_class, void** objects, std::size_t count) noexcept;

  /// Takes back objects into their spans at once, verified: what is wrong with them is fatal here.
  void release_to_spans(unsigned size_class, void** objects, std::size_t count,
                        Was was = Was::kInUse) noexcept;
  /// The same for one object, unless another thread is at the list.
  /// \returns  whether it was taken back
  bool try_release_to_span(unsigned size_class, void* object) noexcept {
    const auto tried = owner_of(object).try_release_to_spans(size_class, &object, 1);
    return !tried.was_busy && tried.left == 0;
  }

  /// The same for homeward objects, which may be of any class. Their order changes.
  /// \pre      count != 0
  /// \returns  their bytes
  std::size_t release_homeward(void** objects, std::size_t count, Was was = Was::kInUse) noexcept;
  /// The class of a homeward object on its way; 0 if its span is gone, since it was freed twice.
  unsigned class_of(const void* object) const noexcept {
    const Span* const span = spans_.map().span_of(object);
    return span != nullptr ? span->size_class : 0;
  }

  /// Moves what lay in the transfer caches unneeded since the last call to its spans, destroys the
  /// kept spans that were not needed, and decommits the holes of spans that were not used since.
  /// \returns  bytes decommitted as holes
  std::size_t release_unneeded() noexcept;
  /// The same for everything in transfer caches, all kept spans and all holes.
  std::size_t release_all() noexcept;

  /// Moves all of the transfer caches to their spans, of the classes below `end_class`.
  void flush_transfer(unsigned end_class = SizeClassMap::kCount) noexcept;

  /// Destroys kept spans of some `bytes`: their pages are then idle in the page heap, for any use.
  /// \returns  bytes
  std::size_t destroy_kept(std::size_t bytes) noexcept;

  /// Called when the heap may have grown: once it has by enough, as much goes back to the kernel of
  /// spans that are nearly empty, as far as there are some.
  /// \cost  a load where it has not, or little is free in spans
  void exchange_holes() noexcept {
    if (spans_.growth_bytes() >= next_hole_look_.load(std::memory_order_relaxed)) [[unlikely]]
      exchange_holes_if_due();
  }

  /// Has no objects and no spans any more; who calls this gives them back.
  /// \threads  no other thread uses it at the same time
  void forget_spans() noexcept {
    for_each_shard([](CentralShard& shard) { shard.forget_spans(); });
    exchange_.forget(spans_.refilled_bytes());
  }

  /// Bytes free in spans on pages that were not decommitted, and in transfer caches.
  /// \cost  a load per class and shard
  std::size_t idle_bytes() const noexcept;
  /// Bytes free in spans, holes included, and in transfer caches.
  /// \cost  the same
  std::size_t free_bytes() const noexcept;
  /// The first of the former, as far as the shards have said: at least that, off by some per class.
  /// \cost  a load
  std::size_t pending_hint() const noexcept { return at_least_none(said_pending()); }
  /// Of two together.
  static std::size_t pending_hint(const Central& one, const Central& other) noexcept {
    return at_least_none(one.said_pending() + other.said_pending());
  }

  /// The same, after every list has said what it has.
  /// \cost  a lock per class and shard
  std::size_t settle_pending_hint() noexcept;

  /// Takes the class of the thread to the thread's own shard; if it is there, takes the thread to
  /// the shard with the fewest threads, or to a new one, if it is better off. A place without a
  /// thread, whose cache is flushed, stays as it is.
  void move_on(Place& place, unsigned size_class) noexcept;

  /// Whether what a thread gets may be of its own shard's spans alone, although the heap grows for
  /// that while objects of others are free. Where there are many more shards than processors, most
  /// of the others do not run, and what they have is better used; unless two threads would share
  /// lines, and the heap is small.
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
  // Chosen: a lock that another thread has counts as much as so many claims without one, and a
  // thread moves on when it has met this many more than those make good. Each move doubles that, so
  // that threads that meet because they hand objects to each other soon stay where they are.
  static constexpr std::uint32_t kClaimsPerWait = 64;
  static constexpr std::uint32_t kFirstPatience = 2 * kClaimsPerWait;
  static constexpr std::uint32_t kMostPatience = kFirstPatience << 12;
  // Chosen: what a shard with threads keeps of a class before another may have a span of it.
  static constexpr std::size_t kSpansToSpare = 2;
  // Chosen: what transfer caches that have grown may hold while the heap grows.
  static constexpr std::size_t kGrownTransferBytes = 1024 * 1024;
  // Chosen: by how much the heap changes, and by what part of it, before they are looked at again.
  static constexpr std::size_t kGrownLookBytes = kGrownTransferBytes / 4;
  static constexpr std::size_t kGrownLookPart = 128;
  // Chosen: in a heap as large as this some spans and some objects more in transfer caches do not
  // show, and less is waited for. In a small one they are some percent.
  static constexpr std::size_t kLargeBytes = std::size_t{32} << 20;
  static constexpr std::size_t kHomewardBatch = 128;
  // Chosen: so much goes to one thread, and to another, where objects come and go in batches. Where
  // they come and go at random, a bin as large as that is rare, and a shard for it would show.
  static constexpr std::size_t kBatchBytes = std::size_t{32} << 10;
  static constexpr std::size_t kBatchOfSmall = 1024;
  static constexpr std::size_t kLeastBatch = 8;
  // Chosen: from this size on a bin holds some objects at most. With smaller ones, too, `slots`
  // with 16 threads took 1.5 times the memory, and in a small heap, too, `ephemeral` 1.07 times.
  static constexpr std::size_t kLargeObjectBytes = 4096;
  // Chosen: where there are so many shards for each processor, most of their threads may run at
  // once. Threads that only wait have shards, too.
  static constexpr unsigned kShardsAtOnce = 2;
  // Chosen: on two processors large batches alone stay apart. There `handover` took 1.03 to 1.09 of
  // the memory otherwise, and batches were no faster.
  static constexpr unsigned kFewProcessors = 2;
  // Chosen: what may be free in spans, and as a part of the heap, before holes are looked for.
  static constexpr std::size_t kHolesFromBytes = std::size_t{4} << 20;
  static constexpr std::size_t kHolesFromPart = 8;
  // Chosen: so much growth is exchanged for holes at a time, and in a large heap such a part of it:
  // those of some spans go back by one system call, and few of the program's allocations make one.
  static constexpr std::size_t kHolesAtOnce = std::size_t{256} << 10;
  static constexpr std::size_t kHolesAtOncePart = 256;
  // Chosen: a free object of more bytes is a hole by itself, and may be the next one handed out.
  static constexpr std::size_t kMostBytesForHoles = 2048;

  template <typename Function>
  void for_each_shard(Function&& function) const noexcept {
    const unsigned count = shard_count();
    for (unsigned i = 0; i < count; ++i) function(*shards_[i]);
  }
  /// Calls `function(CentralShard&)` for the others, from the next one on, until one is of use.
  /// \param index  of the one that is left out
  /// \returns      what the call returned; 0 if none was of use
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
  unsigned processors_ = 1;  // this and the next: written before the first thread
  bool rounds_up_ = false;
  IdleTally tally_;
  CentralShard first_;
  // One thread at a time empties transfer caches that have grown. Only fork() waits for it.
  Lock emptying_{LockRank::kCentral};
  Lock lock_{LockRank::kCentral};
  unsigned most_ STRATA_GUARDED_BY(lock_) = 1;
  // Of all shards. A thread that begins gets the lane that has the fewest.
  std::uint32_t threads_of_lane_[CentralShard::kMostLanes] STRATA_GUARDED_BY(lock_) = {};
  unsigned lanes_ STRATA_GUARDED_BY(lock_) = 1;
  // The shards there are, and how many. Both change under lock_, and each shard counts its threads
  // under it. Read without it: release after the shard is complete, acquire before it is used.
  std::atomic<unsigned> count_{1};
  CentralShard* shards_[kMostShards];
  // Where the next search for holes begins: a class of a shard. relaxed: two may search at once.
  std::atomic<unsigned> next_for_holes_{0};
  // Growth at which the next look for holes is due. relaxed: two may look at once.
  std::atomic<std::size_t> next_hole_look_{kHolesAtOnce};
  // What was in use when too little had grown in transfer caches. relaxed: two may look at once.
  std::atomic<std::size_t> used_without_grown_{0};
  HoleExchange exchange_;
};

}  // namespace strata
