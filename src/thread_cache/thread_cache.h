#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "central/central.h"
#include "size_class/size_class_map.h"
#include "span/page_heap.h"
#include "thread_cache/object_bins.h"
#include "thread_cache/thread_state.h"

namespace strata {

/// How many bytes of objects all thread caches together may hold: a share of the heap, so that a
/// small program stays small, up to an absolute bound. Each thread may hold its part of it, so that
/// 512 threads hoard no more than two.
class CacheBudget {
 public:
  constexpr CacheBudget(const PageHeap& heap, std::size_t most_bytes) noexcept
      : heap_(heap), most_bytes_(most_bytes) {}

  void set_most_bytes(std::size_t bytes) noexcept {
    most_bytes_ = bytes;
  }  ///< before the first thread
  /// While there is pressure all caches together get only what a tiny program gets.
  void set_pressure(bool is_pressed) noexcept {
    is_pressed_.store(is_pressed, std::memory_order_relaxed);
  }
  void add_thread() noexcept { threads_.fetch_add(1, std::memory_order_relaxed); }
  void remove_thread() noexcept { threads_.fetch_sub(1, std::memory_order_relaxed); }

  /// What a thread may hold, and with the bins that lasting loads have made grow.
  /// \returns  Below 4 GiB.
  std::size_t share_bytes() const noexcept {
    const std::size_t heap = heap_bytes();
    const std::size_t modest =
        std::max(kModestBytes + heap / kModestShare,
                 threads_.load(std::memory_order_relaxed) * kModestPartBytes);
    return part_of(std::max(std::min(heap / kHeapShare, modest), kLeastBytes));
  }
  std::size_t lasting_share_bytes() const noexcept {
    return part_of(std::max(heap_bytes() / kHeapShare, kLeastLastingBytes));
  }

  /// Pages of the heap that are in use: a hint. Where the page heap has several shards, it is what
  /// was seen last.
  std::size_t heap_pages() const noexcept {
    return heap_.has_one_shard() ? heap_.used_pages() : seen_pages_.load(std::memory_order_relaxed);
  }
  /// Looks at the heap: every thread now and then.
  void look_at_heap() noexcept {
    const std::size_t now = heap_.used_pages();
    const std::size_t seen = seen_pages_.load(std::memory_order_relaxed);
    const std::size_t little = seen / kLittleChange;
    // All threads read it with each batch, so it is seldom written.
    if (now > seen + little || now + little < seen)
      seen_pages_.store(now, std::memory_order_relaxed);
  }

 private:
  // Chosen: an eighth and 512 KiB made servers with many small threads twice as slow (larson: 1.8
  // against 0.5 of glibc's time) and no program's RSS smaller by more than a twentieth.
  static constexpr std::size_t kHeapShare = 2;
  static constexpr std::size_t kLeastBytes = std::size_t{2} << 20;
  // Chosen: what a thread may hold beyond this part comes of an eighth of the heap and these bytes.
  // There bins hold more than they give and get (docs/decisions/0004).
  static constexpr std::size_t kModestPartBytes = std::size_t{512} << 10;
  static constexpr std::size_t kModestShare = 8;
  static constexpr std::size_t kModestBytes = std::size_t{4} << 20;
  // Chosen: nearly a batch of 100 objects of 32 KiB for each of eight threads, and as much as all
  // caches may hold by default (docs/decisions/0013).
  static constexpr std::size_t kLeastLastingBytes = std::size_t{32} << 20;
  // Chosen: what bins may hold changes by no more than this part of the heap does.
  static constexpr std::size_t kLittleChange = 16;
  // Chosen: still a batch of the usual classes for some threads.
  static constexpr std::size_t kPressedBytes = std::size_t{256} << 10;

  std::size_t heap_bytes() const noexcept { return heap_pages() * kPageBytes; }

  /// A thread's part of what all may hold together.
  std::size_t part_of(std::size_t all_bytes) const noexcept {
    const std::size_t allowed =
        is_pressed_.load(std::memory_order_relaxed) ? kPressedBytes : all_bytes;
    // In 32 bits it takes a third of the time: all caches together get 4 GiB at the most.
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::size_t>({allowed, most_bytes_, UINT32_MAX}));
    return bytes / std::max(threads_.load(std::memory_order_relaxed), std::uint32_t{1});
  }

  const PageHeap& heap_;
  std::size_t most_bytes_;
  // Hints: relaxed, nothing is ordered by them.
  std::atomic<std::size_t> seen_pages_{0};
  std::atomic<std::uint32_t> threads_{0};
  std::atomic<bool> is_pressed_{false};
};

/// One thread's free objects, and how its bins are filled, flushed and sized.
///
/// A bin has no slots until its class is first used, starts with a few, and doubles whenever it
/// runs dry or over, up to kMaxBinBytes and as far as the thread's share of the budget goes. Where
/// that is used up, a bin that often does so takes room from one that does not. One that goes on to
/// run dry and over by turns, as batches have it do, may grow further, at the cost of idle bins.
/// When threads have come and the thread holds more than twice its share, bins that run over give
/// up half of themselves.
///
/// Beside the classes there is a bin of homeward objects, whose spans serve nobody: malloc never
/// pops from it, and when it is full all of it goes to the spans.
/// \threads  Its thread only, apart from counting and take_over(), which any thread may do:
///           bins_lock_ keeps a bin's slots where they are meanwhile. All slow paths hold it, and
///           hide the bins from signal handlers of the thread.
class ThreadCache : public ObjectBins, public ListLink<> {
 public:
  ThreadCache(Central& central, CacheBudget& budget, MetadataArena& metadata) noexcept;

  /// Fills the empty bin and pops. The object may be of a larger class, aligned at least as well.
  /// \returns  nullptr when out of memory.
  /// \cost     a batch from Central
  void* refill_and_pop(unsigned size_class) noexcept;

  /// Makes room in the full bin, by growing it or by moving its colder half to Central, and pushes.
  void flush_and_push(unsigned size_class, void* object) noexcept;

  ///   kUsual    to where other threads find it first
  ///   kToSpans  past the transfer caches, which would get memory for what leaves them at once
  ///   kIdle     the same, as what nobody needs: spans that become empty by it become pages
  enum class Way : std::uint8_t { kUsual, kToSpans, kIdle };

  /// Moves everything to Central, of the classes below `end_class`.
  /// \returns  true if there was anything
  bool flush_all(unsigned end_class = SizeClassMap::kCount, Way way = Way::kToSpans) noexcept;

  /// Has no objects any more.
  /// \threads  no other thread uses it at the same time
  void forget_objects() noexcept;

  /// Gives back the slots of its bins: the end of a cache without objects.
  /// \threads  no other thread uses it at the same time, or ever again
  void give_back_slots() noexcept;

  /// Moves to the spans what another thread's cache holds, but for the latest object of each bin,
  /// while that thread goes on (take_over.cpp tells how).
  ///   kIdle  only if its owner did nothing with it since the last call
  ///   kAll   in any case
  /// `room` is `room_slots` slots that nothing else uses meanwhile; `barrier` is the kernel's, or
  /// that of a test, which plays the owner there.
  /// \returns  bytes moved; 0 where the kernel has no such barrier
  enum class Owners { kIdle, kAll };
  using Barrier = bool (*)();
  std::size_t take_over(Owners which, void** room, std::size_t room_slots,
                        Barrier barrier) noexcept;

  /// Bytes that the bins have room for.
  /// \threads  its own, and any while it is parked
  // Not analysed: in those threads it does not change meanwhile.
  std::size_t capacity_bytes() const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    return capacity_bytes_;
  }

  /// Objects of the class in this cache.
  /// \threads  any; late by what the owner does meanwhile
  std::size_t count_objects(unsigned size_class) noexcept;
  /// Adds the objects of every class.
  /// \threads  the same
  using Counts = std::array<std::size_t, SizeClassMap::kCount>;
  void add_objects(Counts& counts) noexcept;

  /// Falls by one with each object that comes from Central; for the cache's user.
  /// \threads  its own
  std::int64_t& countdown() noexcept { return countdown_; }
  /// Blocks beyond the size classes until it counts them; for the cache's user.
  /// \threads  its own
  std::int32_t& blocks_left() noexcept { return blocks_left_; }

  Central::Place& place() noexcept { return place_; }
  Lock& bins_lock() noexcept STRATA_RETURN_CAPABILITY(bins_lock_) { return bins_lock_; }

 private:
  friend class ThreadRegistry;  // the owner's state

  // Chosen. A bin has 2^n - 1 objects, so that its slots with the empty one are a power of two.
  static constexpr std::size_t kFirstCapacity = 7;
  static constexpr std::size_t kMaxCapacity = 2047;
  // Chosen: what one class of one thread may hold; half of it travels as a batch. A batch of large
  // objects is few objects, so they get more (docs/decisions/0013).
  static constexpr std::size_t kMaxBinBytes = 96 * 1024;
  static constexpr std::size_t kMaxBinBytesOfLarge = 256 * 1024;
  static constexpr std::size_t kLargeFromBytes = 1024;
  // Chosen: a bin that could not grow counts how often it did the same as the time before, run dry
  // or over, up to the length of a long run in a row, and begins anew where it did so only once.
  // Above the first count its load is a lasting one, of batches that do not fit: it is filled and
  // emptied as a whole. It asks for room there if batches are a little larger, and at the second
  // count, where idle bins give way. It may have so many times the bytes, of all that the lasting
  // share has left but for this part of it.
  static constexpr std::uint8_t kLastingCalls = 50;
  static constexpr std::uint8_t kAskAgainCalls = 100;
  static constexpr std::uint8_t kLongRun = 8;
  // Chosen: a class without a bin asks so often whether there is room by now.
  static constexpr std::uint8_t kAskForFirst = 8;
  static constexpr std::size_t kLastingTimes = 16;
  static constexpr std::size_t kReservePart = 4;
  // Chosen: a thread looks for an idle bin once in so many slow calls of classes that could not
  // grow. A look takes as long as one of these calls. With sixteen times as many looks, bins take
  // turns (docs/decisions/0004).
  static constexpr std::uint8_t kSlowCallsPerLook = 64;
  // Chosen: a look reads a line of each shard of the page heap, which other processors write.
  static constexpr std::uint8_t kBatchesPerLook = 64;
  // Chosen: when the heap has grown by this part of itself, and so much at least, what such bins
  // hold may be of more use elsewhere.
  static constexpr std::size_t kHeapGrowthPart = 8;
  static constexpr std::size_t kHeapGrowthPages = (std::size_t{2} << 20) / kPageBytes;
  // Chosen: a class that the process has no span of may never need more than a few objects. So many
  // come from the next power of two, up to this size: a span takes two OS pages of memory and
  // bookkeeping, and as many page faults (docs/decisions/0022).
  static constexpr std::uint8_t kRoundedUp = 8;
  static constexpr unsigned kRoundedUpClasses = SizeClassMap::class_of(2048);
  // Chosen: a slot is at most a thirty-second of the object in it. For smaller ones a bin that
  // spares some calls of the slow way takes more memory than it is worth.
  static constexpr std::size_t kLastingFromBytes = 256;
  // Chosen: others who need the same list wait for so many objects at most, some 5 µs.
  static constexpr std::size_t kFlushObjects = 256;
  // Chosen: a bin grows to this part of what its thread's share has left, or to this size as long
  // as there is anything left. Who came first would have the whole share otherwise, and an object
  // of 32 KiB is worth less than bins of small ones (docs/decisions/0004).
  static constexpr std::uint32_t kBinPart = 4;
  static constexpr std::uint32_t kSmallBinBytes = 1024;
  // Chosen: up to this size a class has a bin if the share has room for an object of each. With all
  // sizes, buffers that grow through them (realloc) took 3% more memory.
  static constexpr std::uint32_t kSurelyCachedBytes = 4096;
  // Chosen: when a class has moved, its objects go past the bin as they are freed, a tenth of a
  // microsecond each, until the thread has freed so many and allocates again, or so many were
  // allocated and freed.
  static constexpr std::uint16_t kSettlingFrees = 64;
  static constexpr std::uint16_t kSettlingObjects = 2048;
  // Chosen: how many are claimed at a time meanwhile. With as many as the bin has slots for, eight
  // threads that hand objects over took 10% more memory.
  static constexpr std::size_t kSettlingBatch = 32;
  // Chosen: the share moves with the heap; a bin that gave way each time would flush and fill in
  // turn.
  static constexpr std::size_t kShrinkAbove = 2;
  // Derived: the first slots of the first eighteen bins are in the cache itself, which then fills
  // 4 KiB. Slots from the arena serve another bin when one has outgrown them; these do not.
  static constexpr std::size_t kInlineSlots = 148;

  // Chosen: a batch, and what it may hold for nobody's use.
  static constexpr std::size_t kHomewardSlots = 128;
  static constexpr std::size_t kLeastHomeward = 16;
  static constexpr std::size_t kHomewardBytes = std::size_t{128} << 10;

  enum class Slow : std::uint8_t { kNeither, kDry, kOver };
  struct Latest {
    Slow slow;
    std::uint8_t run;  ///< how often in a row, up to kLongRun
  };
  enum class Load : bool { kUsual, kLasting };
  static std::size_t max_capacity(unsigned size_class, Load load) noexcept;

  /// While it lives, malloc and free of the owner find no bins. Only a signal handler can call them
  /// now; it is served like any that finds a lock held. A bin's top and limit are two words, and a
  /// handler between their stores would find neither what was nor what will be. Here one store ends
  /// all pops, and another all pushes.
  class Hidden {
   public:
    explicit Hidden(ThreadCache& cache) noexcept STRATA_REQUIRES(cache.bins_lock_);
    ~Hidden();
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;

   private:
    struct Seen {
      ObjectBins* malloc_bins;
      ObjectBins* free_bins;
      ObjectBins* verified_bins;
    };
    void show(const Seen& seen) noexcept;

    ThreadState* const owner_;
    Seen before_{};
  };

  std::size_t capacity(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_) {
    return static_cast<std::size_t>(limits_[size_class] - bases_[size_class]);
  }
  std::size_t held(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_) {
    return static_cast<std::size_t>(tops_[size_class] - bases_[size_class]);
  }
  bool rounds_up(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  bool top_up(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  void make_room(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  void make_room_homeward() noexcept STRATA_REQUIRES(bins_lock_);
  bool take_as_last(unsigned size_class, void* object) noexcept STRATA_REQUIRES(bins_lock_);
  bool ask_for_room(unsigned size_class, Slow slow) noexcept STRATA_REQUIRES(bins_lock_);
  bool may_grow(unsigned size_class, Slow slow) noexcept STRATA_REQUIRES(bins_lock_);
  bool is_lasting(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_) {
    return refused_[size_class] > kLastingCalls &&
           SizeClassMap::bytes_of(size_class) >= kLastingFromBytes;
  }
  /// How many objects a refill or a flush moves: half of the bin, or all of it where what comes and
  /// goes at once is more than it can hold.
  std::size_t batch(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_) {
    const std::size_t all = capacity(size_class);
    return is_lasting(size_class) ? all : (all + 1) / 2;
  }
  bool grow(unsigned size_class, std::size_t share) noexcept STRATA_REQUIRES(bins_lock_);
  bool grow_under(Load load, unsigned size_class, std::size_t share) noexcept
      STRATA_REQUIRES(bins_lock_);
  bool grow_to(std::size_t most, unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  std::size_t left_of_share(Load load, std::size_t share) const noexcept
      STRATA_REQUIRES(bins_lock_);
  bool take_from_largest(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  bool take_from_idle(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  unsigned find_idle(std::size_t bytes) const noexcept STRATA_REQUIRES(bins_lock_);
  std::size_t spare_bytes(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_);
  bool shrink_idle() noexcept STRATA_REQUIRES(bins_lock_);
  void shrink_if_heap_grew() noexcept STRATA_REQUIRES(bins_lock_);
  /// With one batch in kBatchesPerLook.
  void look_at_heap() noexcept STRATA_REQUIRES(bins_lock_) {
    if (batches_++ % kBatchesPerLook == 0) [[unlikely]]
      budget_->look_at_heap();
  }
  bool holds_too_much(unsigned size_class, std::size_t share) const noexcept
      STRATA_REQUIRES(bins_lock_);
  void shrink(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  void set_capacity(unsigned size_class, std::size_t count) noexcept STRATA_REQUIRES(bins_lock_);
  [[gnu::cold]] void settle(unsigned size_class, std::size_t count, bool has_moved) noexcept
      STRATA_REQUIRES(bins_lock_);
  [[gnu::cold]] void send_home(unsigned size_class, void* object) noexcept
      STRATA_REQUIRES(bins_lock_);
  void send_home_later(unsigned size_class, void* object) noexcept STRATA_REQUIRES(bins_lock_);
  [[gnu::cold]] bool end_settling(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  bool give_slots(unsigned size_class, std::size_t count) noexcept STRATA_REQUIRES(bins_lock_);
  void take_slots_back(void** slots, std::size_t count) noexcept STRATA_REQUIRES(bins_lock_);
  std::size_t flush(unsigned size_class, std::size_t count, Way way = Way::kUsual) noexcept
      STRATA_REQUIRES(bins_lock_);
  std::size_t release(unsigned size_class, void** objects, std::size_t count,
                      Way way = Way::kUsual) noexcept;
  void close_gaps(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  std::size_t count_held(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  std::uint64_t fingerprint() noexcept STRATA_REQUIRES(bins_lock_);
  void take_slots(unsigned size_class, void** taken, std::size_t count) noexcept
      STRATA_REQUIRES(bins_lock_);
  std::size_t sort_out(unsigned size_class, void** taken, std::size_t count,
                       std::size_t top) noexcept STRATA_REQUIRES(bins_lock_);

  // The tops and limits of ObjectBins are the owner's on its hot path, which takes no lock; they
  // change otherwise under bins_lock_ alone.
  void** bases_[SizeClassMap::kBins] STRATA_GUARDED_BY(bins_lock_);
  // Slots the bin owns, a power of two or 0.
  std::uint16_t slot_counts_[SizeClassMap::kBins] STRATA_GUARDED_BY(bins_lock_) = {};
  Central* central_;
  Central::Place place_;
  CacheBudget* budget_;
  MetadataArena* metadata_;
  ThreadState* owner_ = nullptr;  // who uses it; written by itself, with the registry's lock
  std::int64_t countdown_ = ThreadState::kUndrawn;
  std::int32_t blocks_left_ = 0;
  // Capacity x object size over all bins.
  std::size_t capacity_bytes_ STRATA_GUARDED_BY(bins_lock_) = 0;
  // The part of it in bins that a lasting load has made grow, and the heap's pages then.
  std::size_t lasting_bytes_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::size_t heap_pages_ STRATA_GUARDED_BY(bins_lock_) = 0;
  Lock bins_lock_{LockRank::kThreadBins};
  // The bins that ran dry or over since the last look for one that did not, and calls of those that
  // could not grow.
  std::uint64_t ran_out_[(SizeClassMap::kCount + 63) / 64] STRATA_GUARDED_BY(bins_lock_) = {};
  std::uint8_t slow_calls_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::uint8_t batches_ STRATA_GUARDED_BY(bins_lock_) = 0;  // modulo 256
  bool is_told_of_exit_ = false;  // others may reach its owner; guarded by the registry's lock
  // The count of a bin that could not grow, and 1; 0 if it may be able to.
  std::uint8_t refused_[SizeClassMap::kCount] STRATA_GUARDED_BY(bins_lock_) = {};
  // What it did last, since the last look for idle ones.
  Latest latest_[SizeClassMap::kCount] STRATA_GUARDED_BY(bins_lock_) = {};
  // A class that has moved settles until so many more objects come and go, or as many as suffice
  // were sent home.
  struct Settling {
    std::uint16_t left = 0;
    std::uint16_t sent_home = 0;
    bool is_on() const noexcept { return left != 0; }
    void count(std::size_t objects) noexcept {
      left = static_cast<std::uint16_t>(left - std::min<std::size_t>(objects, left));
    }
  };
  Settling settling_[SizeClassMap::kCount] STRATA_GUARDED_BY(bins_lock_) = {};
  // Objects of a larger class that were allocated in place of its own.
  std::uint8_t rounded_up_[kRoundedUpClasses] STRATA_GUARDED_BY(bins_lock_) = {};
  // A lasting load has made it grow.
  bool has_lasting_[SizeClassMap::kCount] STRATA_GUARDED_BY(bins_lock_) = {};
  // Slots below the top may be nullptr.
  bool has_gaps_[SizeClassMap::kBins] STRATA_GUARDED_BY(bins_lock_) = {};
  // Fingerprints: at the last take_over(), and when there was nothing left to take.
  std::uint64_t seen_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::uint64_t taken_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::size_t inline_used_ STRATA_GUARDED_BY(bins_lock_) = 0;
  void* inline_slots_[kInlineSlots] STRATA_GUARDED_BY(bins_lock_);
};

}  // namespace strata
