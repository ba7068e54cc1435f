#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "central/central.h"
#include "size_class/size_class_map.h"
#include "thread_cache/bin_demand.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/object_bins.h"
#include "thread_cache/thread_state.h"

namespace strata {

/// One thread's free objects, and the slow paths that fill, flush and size its bins. ThreadRegistry
/// owns the caches; the malloc's slow paths call them.
///
/// A bin gets slots when its class is first used: a few. When it runs dry or overflows, it asks for
/// room and doubles, up to a bound for its class and as long as the thread's share of the budget
/// lasts (CacheBudget). After it was refused, it asks seldom (BinDemand), and now and then it takes
/// room from an idle bin. Under a lasting load, batches that do not fit, it may have more than the
/// share, and idle bins give way. A bin that overflows gives up half of itself if the thread holds
/// more than twice its share, since new threads have come or the heap is smaller.
///
/// A further bin holds homeward objects, whose spans serve nobody: malloc never pops from it, and
/// when it is full, all of it goes to the spans.
/// \threads  Its thread only, except for counting and take_over(), which any thread may call:
///           bins_lock_ keeps a bin's slots in place meanwhile. All slow paths hold it, and hide
///           the bins from signal handlers of the thread.
class ThreadCache : public ObjectBins, public ListLink<> {
 public:
  ThreadCache(Central& central, CacheBudget& budget, MetadataArena& metadata) noexcept;

  /// Fills the empty bin and pops. The object may be of a larger class, with at least the same
  /// alignment.
  /// \returns  nullptr when out of memory.
  /// \cost     a batch from Central
  void* refill_and_pop(unsigned size_class) noexcept;

  /// Makes room in the full bin (grows it, or moves its colder half to Central) and pushes.
  void flush_and_push(unsigned size_class, void* object) noexcept;

  ///   kUsual    to where other threads look first
  ///   kToSpans  past the transfer caches, which would allocate memory for objects that leave at
  ///             once
  ///   kIdle     as kToSpans, but as unneeded objects: spans that become empty turn into pages
  enum class Way : std::uint8_t { kUsual, kToSpans, kIdle };

  /// Moves all objects of the classes below `end_class` to Central.
  /// \returns  true if there was anything
  bool flush_all(unsigned end_class = SizeClassMap::kCount, Way way = Way::kToSpans) noexcept;

  /// Drops all objects.
  /// \threads  no other thread uses it at the same time
  void forget_objects() noexcept;

  /// Frees the slots of its bins, at the end of a cache without objects.
  /// \threads  no other thread uses it at the same time, or ever again
  void give_back_slots() noexcept;

  /// Moves the objects of another thread's cache to the spans while that thread runs on, except the
  /// latest of each bin that malloc pops from without an exchange (take_over.cpp says how).
  ///   kIdle  only if its owner did nothing with it since the last call
  ///   kAll   in any case
  /// `room` is `room_slots` slots that nothing else uses meanwhile. `barrier` is the kernel's, or
  /// that of a test, which plays the owner in it.
  /// \returns  bytes moved; 0 if the kernel has no such barrier
  enum class Owners { kIdle, kAll };
  using Barrier = bool (*)();
  std::size_t take_over(Owners which, void** room, std::size_t room_slots,
                        Barrier barrier) noexcept;

  /// Bytes that the bins have room for.
  /// \threads  its own, and any while it is parked
  // Not analysed: it does not change while those threads read it.
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

  /// A counter for the cache's user: falls by one with each object from Central.
  /// \threads  its own
  std::int64_t& countdown() noexcept { return countdown_; }
  /// A counter for the cache's user: blocks beyond the size classes until it counts them.
  /// \threads  its own
  std::int32_t& blocks_left() noexcept { return blocks_left_; }

  Central::Place& place() noexcept { return place_; }
  Lock& bins_lock() noexcept STRATA_RETURN_CAPABILITY(bins_lock_) { return bins_lock_; }

 private:
  friend class ThreadRegistry;  // the owner's state

  // Chosen: a look reads a line of each shard of the page heap, which other processors write.
  static constexpr std::uint8_t kBatchesPerLook = 64;
  // Chosen: a class without a span in the process may never need more than a few objects. The first
  // so many come from the next power of two, up to this size: a span takes two OS pages of memory
  // and bookkeeping, and as many page faults (docs/decisions/0022).
  static constexpr std::uint8_t kRoundedUp = 8;
  static constexpr unsigned kRoundedUpClasses = SizeClassMap::class_of(2048);
  // Derived: the first slots of the first eighteen bins are in the cache itself, which then fills 4
  // KiB. Outgrown slots from the arena serve another bin; these do not.
  static constexpr std::size_t kInlineSlots = 148;

  using Slow = BinDemand::Slow;
  using Load = BinDemand::Load;

  /// While it lives, the owner's malloc and free find no bins. Only a signal handler can call them
  /// then; it is served like any that finds a lock held. A bin's top and limit are two words, and a
  /// handler between their stores would find an inconsistent bin. Here one store stops all pops,
  /// and another all pushes.
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
  /// The same in another thread than the owner's: late by what the owner does meanwhile.
  std::size_t load_held(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_) {
    void** const top = std::atomic_ref<void**>(tops_[size_class]).load(std::memory_order_relaxed);
    return static_cast<std::size_t>(top - bases_[size_class]);
  }
  bool rounds_up(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  bool top_up(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  void make_room(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  void make_room_homeward() noexcept STRATA_REQUIRES(bins_lock_);
  bool take_as_last(unsigned size_class, void* object) noexcept STRATA_REQUIRES(bins_lock_);
  bool ask_for_room(unsigned size_class, Slow slow) noexcept STRATA_REQUIRES(bins_lock_);
  Load load_of(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_) {
    return demands_[size_class].load_of(SizeClassMap::bytes_of(size_class));
  }
  /// How many objects a refill or a flush moves: half of the bin, or all of it if more comes and
  /// goes at once than it can hold.
  std::size_t batch(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_) {
    const std::size_t all = capacity(size_class);
    return load_of(size_class) == Load::kLasting ? all : (all + 1) / 2;
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
  std::size_t release_by_parts(unsigned size_class, void** objects, std::size_t count,
                               Way way) noexcept;
  bool may_have_gaps(unsigned size_class) const noexcept STRATA_REQUIRES(bins_lock_);
  void close_gaps(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  std::size_t count_held(unsigned size_class) noexcept STRATA_REQUIRES(bins_lock_);
  std::uint64_t fingerprint() noexcept STRATA_REQUIRES(bins_lock_);
  /// What take_over() takes from a bin.
  struct Taken {
    void** objects;
    std::size_t count;
  };
  bool take_from_bins(Owners which, Taken* taken, void** room, std::size_t room_slots,
                      Barrier barrier) noexcept;
  void take_slots(unsigned size_class, void** taken, std::size_t count) noexcept
      STRATA_REQUIRES(bins_lock_);
  std::size_t sort_out(unsigned size_class, void** taken, std::size_t count,
                       std::size_t top) noexcept STRATA_REQUIRES(bins_lock_);

  // The owner uses the tops and limits of ObjectBins on its hot path, which takes no lock;
  // otherwise they change only under bins_lock_.
  void** bases_[SizeClassMap::kBins] STRATA_GUARDED_BY(bins_lock_);
  // Slots that the bin owns: a power of two, or 0.
  std::uint16_t slot_counts_[SizeClassMap::kBins] STRATA_GUARDED_BY(bins_lock_) = {};
  Central* central_;
  Central::Place place_;
  CacheBudget* budget_;
  MetadataArena* metadata_;
  ThreadState* owner_ = nullptr;  // its user, which writes it under the registry's lock
  std::int64_t countdown_ = ThreadState::kUndrawn;
  std::int32_t blocks_left_ = 0;
  // Capacity x object size over all bins.
  std::size_t capacity_bytes_ STRATA_GUARDED_BY(bins_lock_) = 0;
  // The part of it in bins that a lasting load has grown, and the heap's pages then.
  std::size_t lasting_bytes_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::size_t heap_pages_ STRATA_GUARDED_BY(bins_lock_) = 0;
  Lock bins_lock_{LockRank::kThreadBins};
  // The bins that ran dry or overflowed since take_from_idle() last looked for an idle one, and its
  // calls since then.
  std::bitset<SizeClassMap::kCount> ran_out_ STRATA_GUARDED_BY(bins_lock_);
  std::uint8_t slow_calls_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::uint8_t batches_ STRATA_GUARDED_BY(bins_lock_) = 0;  // modulo 256
  bool is_told_of_exit_ = false;  // others may reach its owner; guarded by the registry's lock
  BinDemand demands_[SizeClassMap::kCount] STRATA_GUARDED_BY(bins_lock_) = {};
  // A class that has moved settles until `left` more objects come and go, or enough were sent home.
  struct Settling {
    std::uint16_t left = 0;
    std::uint16_t sent_home = 0;
    bool is_on() const noexcept { return left != 0; }
    void count(std::size_t objects) noexcept {
      left = static_cast<std::uint16_t>(left - std::min<std::size_t>(objects, left));
    }
  };
  Settling settling_[SizeClassMap::kCount] STRATA_GUARDED_BY(bins_lock_) = {};
  // How many objects of a larger class were allocated in place of its own.
  std::uint8_t rounded_up_[kRoundedUpClasses] STRATA_GUARDED_BY(bins_lock_) = {};
  // Whether a lasting load has grown the bin.
  bool has_lasting_[SizeClassMap::kCount] STRATA_GUARDED_BY(bins_lock_) = {};
  // Whether slots below the top may be nullptr.
  bool has_gaps_[SizeClassMap::kBins] STRATA_GUARDED_BY(bins_lock_) = {};
  // Fingerprints: at the last take_over(), and when nothing was left to take.
  std::uint64_t seen_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::uint64_t taken_ STRATA_GUARDED_BY(bins_lock_) = 0;
  std::size_t inline_used_ STRATA_GUARDED_BY(bins_lock_) = 0;
  void* inline_slots_[kInlineSlots] STRATA_GUARDED_BY(bins_lock_);
};

}  // namespace strata
