#include "central/central_shard.h"

#include <algorithm>
#include <new>

namespace strata {
namespace {

// Chosen: two batches of the small classes pass without touching a span, and a cache stays below 64
// KiB per class and lane (4 objects of the largest classes) until more than that comes and goes.
constexpr std::size_t kTransferBytes = 64 * 1024;
// Chosen: for all lanes together where there are many. With twice as much `slots` took 1.04 times
// the memory.
constexpr std::size_t kTransferBytesOfMany = 128 * 1024;
constexpr std::size_t kMinTransferObjects = TransferCache::kOwnSlots;
constexpr std::size_t kMaxTransferObjects = 2048;
// Chosen: batches of ten thousand objects pass, up to 32 KiB each. Past the transfer cache, each
// object takes two or three times as long (docs/decisions/0013). The memory is given back before
// the heap grows.
constexpr std::size_t kMostTransferBytes = std::size_t{512} << 20;
constexpr std::size_t kMostTransferObjects = 16 * 1024;

/// Where the kernel gives no more, other bookkeeping that came back makes room.
/// \returns  nullptr when out of memory
void* allocate_or_reuse(MetadataArena& metadata, std::size_t bytes) noexcept {
  void* const memory = metadata.allocate_forever(bytes);
  return memory != nullptr ? memory : metadata.allocate(bytes);
}

}  // namespace

TransferCache::Bounds CentralShard::transfer_bounds(unsigned size_class) const noexcept {
  if (!has_transfer_) return {};
  const std::size_t bytes = SizeClassMap::bytes_of(size_class);
  const unsigned lanes = lanes_of(size_class);
  const std::size_t of_lane = lanes > kUsualLanes ? kTransferBytesOfMany / lanes : kTransferBytes;
  const std::size_t first = std::clamp(of_lane / bytes, kMinTransferObjects, kMaxTransferObjects);
  const std::size_t most = std::min(kMostTransferBytes / bytes, kMostTransferObjects);
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(most),
          static_cast<std::uint32_t>(bytes)};
}

/// \returns  nullptr when out of memory
[[gnu::noinline]] CentralShard::Class* CentralShard::make(unsigned size_class) noexcept {
  LockGuard guard(making_);
  if (Class* const found = find(size_class)) return found;  // another thread was first
  void* const memory = allocate_or_reuse(metadata_, sizeof(Class));
  if (memory == nullptr) return nullptr;
  auto* const made =
      new (memory) Class{.list = {size_class, spans_, tally_, index_},
                         .first = {.transfer = {transfer_bounds(size_class), tally_, metadata_}}};
  classes_[size_class].store(made, std::memory_order_release);
  made_[size_class / 64].fetch_or(std::uint64_t{1} << size_class % 64, std::memory_order_release);
  return made;
}

/// The thread's lane; the first one when out of memory.
inline CentralShard::Lane& CentralShard::lane_of(Class& of, unsigned lane) noexcept {
  const unsigned index = lane != 0 ? lane_index(of, lane) : 0;
  if (index == 0) return of.first;
  Lane* more = of.more.load(std::memory_order_acquire);
  if (more == nullptr) [[unlikely]]
    more = make_lanes(of);
  return lane_in(of, more, index);
}

/// \returns  nullptr when out of memory, or where there is one lane
[[gnu::cold, gnu::noinline]] CentralShard::Lane* CentralShard::make_lanes(Class& of) noexcept {
  LockGuard guard(making_);
  Lane* more = of.more.load(std::memory_order_relaxed);
  const unsigned lanes = lanes_of(of.list.size_class());
  if (more != nullptr || lanes == 1) return more;
  more = static_cast<Lane*>(allocate_or_reuse(metadata_, (lanes - 1) * sizeof(Lane)));
  if (more == nullptr) return nullptr;
  const TransferCache::Bounds bounds = transfer_bounds(of.list.size_class());
  for (unsigned lane = 1; lane < lanes; ++lane)
    new (&more[lane - 1]) Lane{.transfer = {bounds, tally_, metadata_}};
  of.more.store(more, std::memory_order_release);
  return more;
}

CentralShard::Class& CentralShard::class_of(unsigned size_class,
                                            const void* object) const noexcept {
  Class* const found = find(size_class);
  if (found == nullptr) CentralList::die_of_wrong_class(spans_, object);
  return *found;
}

std::size_t CentralShard::claim(unsigned size_class, void** end, std::size_t count) noexcept {
  Class* const from = find_or_make(size_class);
  if (from == nullptr) return 0;
  std::size_t claimed = 0;
  for_each_lane(*from, [&](Lane& lane) {
    if (claimed == 0 && lane.transfer.size() != 0) claimed = lane.transfer.remove(end, count);
  });
  return claimed != 0 ? claimed : from->list.claim(end, count);
}

Tried CentralShard::try_claim(unsigned size_class, void** end, std::size_t count, unsigned lane,
                              CentralList::First first) noexcept {
  Class* const from = find_or_make(size_class);
  if (from == nullptr) return {0, false};
  // Small objects that others brought share lines with what these still have, and serve last.
  const unsigned lanes = lanes_of(size_class);
  const unsigned looks = lanes > kFewLanes && shares_edges(size_class) ? 1 : lanes;
  const Tried tried = try_remove(*from, lane, looks, end, count);
  if (tried.count != 0) return tried;
  const auto end_of_span = lane % 2 == 0 ? CentralList::From::kLowest : CentralList::From::kHighest;
  Tried claimed = from->list.try_claim(end, count, end_of_span, first);
  claimed.was_busy |= tried.was_busy;
  if (claimed.count == 0 && looks != lanes) [[unlikely]]
    return try_claim_of_lanes(*from, lane, end, count, claimed.was_busy);
  return claimed;
}

/// Tries the transfer caches of all lanes, when the spans have nothing left.
[[gnu::cold, gnu::noinline]] Tried CentralShard::try_claim_of_lanes(Class& from, unsigned lane,
                                                                    void** end, std::size_t count,
                                                                    bool was_busy) noexcept {
  const unsigned lanes = lanes_of(from.list.size_class());
  Tried tried = try_remove(from, lane, lanes, end, count);
  tried.was_busy |= was_busy;
  return tried;
}

/// Takes from the lane's transfer cache, or else from the next of `looks` lanes that has objects;
/// `was_busy` says whether another thread held one of them.
inline Tried CentralShard::try_remove(Class& from, unsigned lane, unsigned looks, void** end,
                                      std::size_t count) noexcept {
  if (Lane* const more = from.more.load(std::memory_order_acquire); more != nullptr)
    return try_remove_of_lanes(from, more, lane, looks, end, count);
  const bool may_look = lane == 0 || looks == lanes_of(from.list.size_class());
  // A hint suffices: what comes a moment later is the next claim's.
  return may_look && from.first.transfer.size() != 0 ? from.first.transfer.try_remove(end, count)
                                                     : Tried{0, false};
}

[[gnu::noinline]] Tried CentralShard::try_remove_of_lanes(Class& from, Lane* more, unsigned lane,
                                                          unsigned looks, void** end,
                                                          std::size_t count) noexcept {
  Tried tried{0, false};
  unsigned index = lane_index(from, lane);
  lane_in(from, more, index).transfer.expect_batch();
  for (; looks != 0 && tried.count == 0; --looks) {
    TransferCache& transfer = lane_in(from, more, index).transfer;
    if (transfer.size() != 0) {
      const bool was_busy = tried.was_busy;
      tried = transfer.try_remove(end, count);
      tried.was_busy |= was_busy;
    }
    index = index + 1 < lanes_of(from.list.size_class()) ? index + 1 : 0;
  }
  return tried;
}

std::size_t CentralShard::try_lend(unsigned size_class, void** end, std::size_t count) noexcept {
  Class* const from = find(size_class);
  if (from == nullptr) return 0;
  std::size_t lent = 0;
  for_each_lane(*from, [&](Lane& lane) {
    if (lent == 0 && lane.transfer.size() != 0) lent = lane.transfer.try_take(end, count);
  });
  return lent;
}

void CentralShard::note_claimed(unsigned size_class, std::size_t count, unsigned lane) noexcept {
  Class* const by = find(size_class);
  if (by == nullptr) return;  // all that they got was others'
  // Those of a lane that is not made are counted in the first.
  std::atomic<std::size_t>& claimed =
      lane_in(*by, by->more.load(std::memory_order_acquire), lane_index(*by, lane)).claimed;
  claimed.store(claimed.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

const void* CentralShard::user(unsigned size_class) const noexcept {
  Class* const of = find(size_class);
  return of != nullptr ? of->user.load(std::memory_order_relaxed) : nullptr;
}

void CentralShard::note_user(unsigned size_class, const void* thread) noexcept {
  Class* const of = find_or_make(size_class);
  if (of != nullptr && of->user.load(std::memory_order_relaxed) != thread)
    of->user.store(thread, std::memory_order_relaxed);
}

std::size_t CentralShard::keep(unsigned size_class, void* const* objects, std::size_t count,
                               unsigned lane) noexcept {
  Class* const into = find(size_class);
  if (into == nullptr) return 0;
  Lane& by = lane_of(*into, lane);
  by.transfer.expect_batch();
  return take_claimed(*into, by, count) ? insert(*into, by, objects, count) : 0;
}

/// Whether the shard's threads had got so many, which are then no longer counted. What the lane's
/// own threads did not get, other lanes' threads did: a producer's, whose objects a thread of this
/// lane frees.
inline bool CentralShard::take_claimed(Class& of, Lane& by, std::size_t count) const noexcept {
  const auto take_from = [&count](Lane& lane) {
    const std::size_t claimed = lane.claimed.load(std::memory_order_relaxed);
    const std::size_t taken = std::min(claimed, count);
    if (taken != 0) lane.claimed.store(claimed - taken, std::memory_order_relaxed);
    count -= taken;
  };
  take_from(by);
  if (count != 0) [[unlikely]]
    for_each_lane(of, take_from);
  return count == 0;
}

std::size_t CentralShard::insert(Class& into, Lane& lane, void* const* objects,
                                 std::size_t count) noexcept {
  if (lane.transfer.is_full() || into.list.is_compacting()) return 0;
  return lane.transfer.try_insert(objects, count);
}

CentralList::Released CentralShard::try_release(unsigned size_class, void** objects,
                                                std::size_t count, unsigned lane) noexcept {
  Class& into = class_of(size_class, *objects);
  Lane& by = lane_of(into, lane);
  by.transfer.expect_batch();
  const std::size_t taken = insert(into, by, objects, count);
  if (taken == count) return {0, false};
  return into.list.try_release(objects, count - taken);
}

std::size_t CentralShard::try_store(unsigned size_class, void* const* objects,
                                    std::size_t count) noexcept {
  Class* const into = find(size_class);
  return into != nullptr ? insert(*into, into->first, objects, count) : 0;
}

std::size_t CentralShard::release_to_spans(unsigned size_class, void** objects, std::size_t count,
                                           Was was, CentralList::Classes classes) noexcept {
  CentralList& list = class_of(size_class, *objects).list;
  return was == Was::kIdle ? list.release_idle(objects, count, classes)
                           : list.release(objects, count, classes);
}

std::size_t CentralShard::in_transfer(Class& of) const noexcept {
  std::size_t objects = 0;
  for_each_lane(of, [&](const Lane& lane) { objects += lane.transfer.size(); });
  return objects;
}

std::size_t CentralShard::transfer_bytes() const noexcept {
  std::size_t bytes = 0;
  for_each_transfer([&](unsigned size_class, const TransferCache& transfer) {
    bytes += transfer.size() * SizeClassMap::bytes_of(size_class);
  });
  return bytes;
}

std::size_t CentralShard::grown_transfer_bytes() const noexcept {
  std::size_t bytes = 0;
  for_each_transfer(
      [&](unsigned, const TransferCache& transfer) { bytes += transfer.grown_bytes(); });
  return bytes;
}

void CentralShard::tell_tally() noexcept {
  for_each_list([](CentralList& list) { list.tell_tally(); });
  for_each_transfer([](unsigned, TransferCache& transfer) { transfer.tell_tally(); });
}

std::size_t CentralShard::pending_bytes() const noexcept {
  std::size_t bytes = 0;
  for_each_list([&](const CentralList& list) { bytes += list.pending_bytes(); });
  return bytes;
}

std::size_t CentralShard::free_bytes() const noexcept {
  std::size_t bytes = 0;
  for_each_list([&](const CentralList& list) {
    bytes += list.free_objects() * SizeClassMap::bytes_of(list.size_class());
  });
  return bytes;
}

CentralShard::ClassStatistics CentralShard::statistics(unsigned size_class) const noexcept {
  Class* const found = find(size_class);
  if (found == nullptr) return {};
  std::size_t waits = 0;
  for_each_lane(*found, [&](Lane& lane) { waits += lane.transfer.lock().waits(); });
  return {found->list.statistics(), in_transfer(*found), waits};
}

void CentralShard::check_invariants() noexcept {
  for_each_list([](CentralList& list) { list.check_invariants(); });
}

}  // namespace strata
