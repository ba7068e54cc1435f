#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "central/central_list.h"
#include "central/transfer_cache.h"
#include "central/tried.h"
#include "size_class/size_class_map.h"

namespace strata {

/// A CentralList and transfer caches per size class, for some of the threads. Central owns the
/// shards. A class's list and caches are made when first needed, so a small program, a small heap
/// and a shard of few classes have few.
///
/// A class has one transfer cache per *lane*, and each thread belongs to a lane. A thread frees to
/// its lane's cache and allocates from it while it has objects. So threads of two lanes that work
/// independently write no common line, and do not get each other's objects, whose lines are in
/// another processor's cache. Small objects share lines, at least at their edges, for as long as
/// two threads have them. So their classes have more lanes, and the other lanes' objects serve
/// after the spans.
/// \threads  Any number at once; a lock for each list and each transfer cache.
class CentralShard {
 public:
  // Chosen: with eight, a small heap of eight threads was 2 to 6% larger in two of five loads.
  static constexpr unsigned kUsualLanes = 4;
  // Chosen: for small objects, most threads that run at once have a lane of their own.
  static constexpr unsigned kMostLanes = 16;
  // Chosen: on two processors, other lanes' objects come before the spans. With the spans first,
  // `slots` took 1.07 times the memory, and no load was faster.
  static constexpr unsigned kFewLanes = 2;

  struct ClassStatistics {
    CentralList::Statistics spans;
    std::size_t in_transfer;
    std::size_t transfer_waits;
  };

  /// \param has_transfer  Without transfer caches, each object comes from its span and is verified
  ///                      as it returns.
  constexpr CentralShard(SpanSource& spans, MetadataArena& metadata, IdleTally& tally,
                         unsigned index, bool has_transfer) noexcept
      : spans_(spans),
        metadata_(metadata),
        tally_(tally),
        index_(static_cast<std::uint8_t>(index)),
        has_transfer_(has_transfer) {}
  /// Sets the number of lanes, 1 to kMostLanes. Classes of larger objects have at most kUsualLanes.
  /// Call before the first thread.
  void set_lanes(unsigned lanes) noexcept { lanes_ = static_cast<std::uint8_t>(lanes); }
  /// Whether objects of the class are so small that several may lie in one line, or in two that a
  /// processor fetches together.
  static constexpr bool shares_lines(unsigned size_class) noexcept {
    return size_class < kLinesApart;
  }
  /// Whether a good part of their lines may hold part of another object, if only at their edges.
  static constexpr bool shares_edges(unsigned size_class) noexcept {
    return size_class <= kLastWithEdges;
  }
  CentralShard(const CentralShard&) = delete;
  CentralShard& operator=(const CentralShard&) = delete;

  /// Claims up to `count` objects, from a transfer cache or from the list's spans.
  /// \returns  how many
  std::size_t claim(unsigned size_class, void** end, std::size_t count) noexcept;
  /// The same, from the lane's transfer cache first, skipping whatever another thread holds.
  /// \param first  which objects of the spans come first
  /// \returns  how many, and whether something busy may have had more
  Tried try_claim(unsigned size_class, void** end, std::size_t count, unsigned lane,
                  CentralList::First first) noexcept;

  /// Claims from a transfer cache only, for a thread of another shard.
  /// \returns  how many
  std::size_t try_lend(unsigned size_class, void** end, std::size_t count) noexcept;
  /// Counts objects that threads of the lane got, wherever from.
  void note_claimed(unsigned size_class, std::size_t count, unsigned lane) noexcept;
  /// The thread that got the last batch of the class and stayed in the shard; nullptr if none has.
  const void* user(unsigned size_class) const noexcept;
  void note_user(unsigned size_class, const void* thread) noexcept;
  /// Takes objects back into the lane's transfer cache, whichever shard owns their spans, as long
  /// as the shard's threads have got as many: they are needed here again, and no span has to be
  /// looked up.
  /// \returns  how many, the last ones
  std::size_t keep(unsigned size_class, void* const* objects, std::size_t count,
                   unsigned lane) noexcept;

  /// How many objects a claim may find: a hint.
  std::size_t free_objects(unsigned size_class) const noexcept {
    Class* const found = find(size_class);
    return found != nullptr ? in_transfer(*found) + found->list.free_objects() : 0;
  }

  /// Takes objects back, into the lane's transfer cache first, then into the spans unless another
  /// thread holds their list. The rest moves to the front: objects of other shards' spans, or, if
  /// the list was busy, all that the transfer cache did not take.
  /// \returns  how many are left
  /// \errors   An object of a class that the shard has never handed out is fatal.
  CentralList::Released try_release(unsigned size_class, void** objects, std::size_t count,
                                    unsigned lane) noexcept;
  /// Stores objects of other shards in a transfer cache, if it has room and is not busy.
  /// \returns  how many, the last ones
  std::size_t try_store(unsigned size_class, void* const* objects, std::size_t count) noexcept;
  /// Takes objects back into the spans, which verifies them. Those of other shards move to the
  /// front.
  /// \returns  how many these are
  std::size_t release_to_spans(unsigned size_class, void** objects, std::size_t count, Was was,
                               CentralList::Classes classes = CentralList::Classes::kOne) noexcept;
  /// The same, unless another thread holds the list.
  CentralList::Released try_release_to_spans(unsigned size_class, void** objects,
                                             std::size_t count) noexcept {
    return class_of(size_class, *objects).list.try_release(objects, count);
  }

  /// Passes objects that the transfer caches did not need since the last call to `flush(size_class,
  /// objects, count)`.
  template <typename Flush>
  void take_unneeded(Flush&& flush) noexcept;
  /// The same for all objects of the classes below `end_class`. The capacities shrink to the first
  /// ones.
  template <typename Flush>
  void take_all(unsigned end_class, Flush&& flush) noexcept;
  /// The same for caches that have grown, whose capacities are halved. Skips busy ones.
  template <typename Flush>
  void take_grown(Flush&& flush) noexcept;

  /// The list of a class.
  /// \returns  nullptr if the shard never needed it
  CentralList* list(unsigned size_class) const noexcept {
    Class* const found = find(size_class);
    return found != nullptr ? &found->list : nullptr;
  }
  /// \returns  nullptr when out of memory
  CentralList* make_list(unsigned size_class) noexcept {
    Class* const made = find_or_make(size_class);
    return made != nullptr ? &made->list : nullptr;
  }
  /// Calls `function(CentralList&)` for each list that is made.
  template <typename Function>
  void for_each_list(Function&& function) const noexcept {
    for_each_class([&](unsigned, Class& each) { function(each.list); });
  }

  /// A list that keeps spans without a claimed object, of any class but `spared`; nullptr if there
  /// is none: a hint.
  CentralList* find_kept(unsigned spared) const noexcept {
    for (unsigned c = next_made(1); c < SizeClassMap::kCount; c = next_made(c + 1)) {
      if (c != spared && list(c)->kept_spans() != 0) return list(c);
    }
    return nullptr;
  }

  /// Drops all objects and spans; the caller gives their memory back.
  /// \threads  no other thread uses the shard at the same time
  void forget_spans() noexcept {
    for_each_list([](CentralList& list) { list.forget_spans(); });
    for_each_transfer([](unsigned, TransferCache& transfer) { transfer.forget_objects(); });
  }

  /// Bytes in the transfer caches, and bytes of free objects on committed pages of spans: hints.
  std::size_t transfer_bytes() const noexcept;
  std::size_t pending_bytes() const noexcept;
  /// Bytes of free objects in spans, committed or not: a hint.
  std::size_t free_bytes() const noexcept;
  /// The bytes that grown transfer caches hold beyond their first capacities.
  std::size_t grown_transfer_bytes() const noexcept;
  void tell_tally() noexcept;

  unsigned index() const noexcept { return index_; }

  /// How many threads it serves. Written under Central's lock, read anywhere as a hint (relaxed).
  std::uint32_t threads() const noexcept { return threads_.load(std::memory_order_relaxed); }
  void add_thread() noexcept { threads_.store(threads() + 1, std::memory_order_relaxed); }
  void remove_thread() noexcept { threads_.store(threads() - 1, std::memory_order_relaxed); }

  ClassStatistics statistics(unsigned size_class) const noexcept;
  void check_invariants() noexcept;

  void hold_locks_for_fork() noexcept {
    LocksInFork::hold(making_);
    for_each_class([&](unsigned, Class& each) {
      each.list.hold_locks_for_fork();
      for_each_lane(each, [&](Lane& lane) { LocksInFork::hold(lane.transfer.lock()); });
    });
  }

 private:
  /// Its part that every batch writes is a line that threads of other lanes do not touch.
  struct alignas(detail::kCacheLineBytes) Lane {
    TransferCache transfer;
    // Objects that its threads got and did not bring back. relaxed: a hint that may miss some.
    std::atomic<std::size_t> claimed{0};
  };
  static_assert(detail::kCacheLineBytes != 64 || sizeof(void*) != 8 || sizeof(Lane) == 128,
                "what is written seldom and what each batch writes are a line each");

  struct Class {
    CentralList list;
    Lane first;
    // A line that is seldom written. All lanes after the first, made when a thread of one brings
    // objects. release after they are complete, acquire before they are used.
    std::atomic<Lane*> more{nullptr};
    // The thread that got the latest batch and stayed. relaxed: a hint, never followed.
    std::atomic<const void*> user{nullptr};
  };

  static constexpr std::size_t kFlushObjects = 64;
  // Chosen: from two cache lines on, two objects share a line only at their edges.
  static constexpr unsigned kLinesApart = SizeClassMap::class_of(2 * detail::kCacheLineBytes);
  // Chosen: beyond eight cache lines, shared edges no longer show. With two, batches of 64 to 1024
  // bytes in 16 threads took twice as many lines from other processors.
  static constexpr unsigned kLastWithEdges = SizeClassMap::class_of(8 * detail::kCacheLineBytes);

  unsigned lanes_of(unsigned size_class) const noexcept {
    return lanes_ <= kUsualLanes || shares_edges(size_class) ? lanes_ : kUsualLanes;
  }
  Class* find(unsigned size_class) const noexcept {
    return classes_[size_class].load(std::memory_order_acquire);
  }
  /// The first class from this one on that is made; kCount if there is none.
  unsigned next_made(unsigned size_class) const noexcept {
    for (unsigned c = size_class; c < SizeClassMap::kCount; c = (c | 63) + 1) {
      const std::uint64_t made = made_[c / 64].load(std::memory_order_acquire) >> c % 64;
      if (made != 0) return c + static_cast<unsigned>(std::countr_zero(made));
    }
    return SizeClassMap::kCount;
  }
  Class* find_or_make(unsigned size_class) noexcept {
    Class* const found = find(size_class);
    return found != nullptr ? found : make(size_class);
  }
  Class* make(unsigned size_class) noexcept;
  Class& class_of(unsigned size_class, const void* object) const noexcept;
  TransferCache::Bounds transfer_bounds(unsigned size_class) const noexcept;
  /// Maps a thread's lane to one of the class: some classes, and later shards, have fewer.
  unsigned lane_index(const Class& of, unsigned lane) const noexcept {
    const unsigned lanes = lanes_of(of.list.size_class());
    return lane < lanes ? lane : lane % lanes;
  }
  /// A lane of a class with these `more` lanes; the first one if they are not made.
  static Lane& lane_in(Class& of, Lane* more, unsigned index) noexcept {
    return index == 0 || more == nullptr ? of.first : more[index - 1];
  }
  Lane& lane_of(Class& of, unsigned lane) noexcept;
  bool take_claimed(Class& of, Lane& by, std::size_t count) const noexcept;
  Lane* make_lanes(Class& of) noexcept;
  Tried try_remove(Class& from, unsigned lane, unsigned looks, void** end,
                   std::size_t count) noexcept;
  Tried try_remove_of_lanes(Class& from, Lane* more, unsigned lane, unsigned looks, void** end,
                            std::size_t count) noexcept;
  Tried try_claim_of_lanes(Class& from, unsigned lane, void** end, std::size_t count,
                           bool was_busy) noexcept;
  std::size_t insert(Class& into, Lane& lane, void* const* objects, std::size_t count) noexcept;
  template <typename Function>
  void for_each_class(Function&& function) const noexcept;
  /// Calls `function(Lane&)` for each lane of a class that is made.
  template <typename Function>
  void for_each_lane(Class& of, Function&& function) const noexcept;
  /// Calls `function(size_class, TransferCache&)` for each transfer cache of all classes.
  template <typename Function>
  void for_each_transfer(Function&& function) const noexcept;
  std::size_t in_transfer(Class& of) const noexcept;
  template <typename Flush, typename Take>
  static void move_all(unsigned size_class, TransferCache& transfer, Flush&& flush,
                       Take take) noexcept;

  SpanSource& spans_;
  MetadataArena& metadata_;
  IdleTally& tally_;
  const std::uint8_t index_;
  const bool has_transfer_;
  std::uint8_t lanes_ = 1;  // written before the first thread
  std::atomic<std::uint32_t> threads_{0};
  Lock making_{LockRank::kCentral};  // held while a class or its lanes are made
  // release after a class is complete, acquire before it is used
  std::atomic<Class*> classes_[SizeClassMap::kCount] = {};
  /// A bit for each class that is made: small programs make few, and each new span visits them all.
  /// The same order.
  std::atomic<std::uint64_t> made_[(SizeClassMap::kCount + 63) / 64] = {};
};

template <typename Function>
void CentralShard::for_each_class(Function&& function) const noexcept {
  for (unsigned c = next_made(1); c < SizeClassMap::kCount; c = next_made(c + 1))
    function(c, *find(c));
}

template <typename Function>
void CentralShard::for_each_lane(Class& of, Function&& function) const noexcept {
  function(of.first);
  Lane* const more = of.more.load(std::memory_order_acquire);
  if (more == nullptr) return;
  const unsigned lanes = lanes_of(of.list.size_class());
  for (unsigned lane = 1; lane < lanes; ++lane) function(more[lane - 1]);
}

template <typename Function>
void CentralShard::for_each_transfer(Function&& function) const noexcept {
  for_each_class([&](unsigned size_class, Class& each) {
    for_each_lane(each, [&](Lane& lane) { function(size_class, lane.transfer); });
  });
}

template <typename Flush>
void CentralShard::take_unneeded(Flush&& flush) noexcept {
  void* batch[kFlushObjects];
  for_each_transfer([&](unsigned size_class, TransferCache& transfer) {
    while (const std::size_t count = transfer.take_unneeded(batch, kFlushObjects))
      flush(size_class, batch, count);
  });
}

template <typename Flush>
void CentralShard::take_all(unsigned end_class, Flush&& flush) noexcept {
  for_each_transfer([&](unsigned size_class, TransferCache& transfer) {
    if (size_class >= end_class) return;
    transfer.shrink();
    move_all(size_class, transfer, flush, &TransferCache::remove);
  });
}

template <typename Flush>
void CentralShard::take_grown(Flush&& flush) noexcept {
  // Where another thread is at it, or comes meanwhile, its objects are in demand.
  for_each_transfer([&](unsigned size_class, TransferCache& transfer) {
    if (transfer.grown_bytes() == 0 || !transfer.try_halve()) return;
    move_all(size_class, transfer, flush, &TransferCache::try_take);
  });
}

/// Empties the cache with `take`, which works like remove().
template <typename Flush, typename Take>
void CentralShard::move_all(unsigned size_class, TransferCache& transfer, Flush&& flush,
                            Take take) noexcept {
  void* batch[kFlushObjects];
  void** const end = batch + kFlushObjects;
  // No more than was there: others may go on filling it.
  for (std::size_t left = transfer.size(); left != 0;) {
    const std::size_t count = (transfer.*take)(end, left < kFlushObjects ? left : kFlushObjects);
    if (count == 0) break;
    flush(size_class, end - count, count);
    left -= count;
  }
}

}  // namespace strata
