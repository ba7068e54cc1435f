// How objects return: to the shard of the threads that use them, or to the shards of their spans.

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/fatal.h"
#include "central/central.h"

namespace strata {

[[gnu::noinline]] CentralShard& Central::owner_of(const void* object) const noexcept {
  Span* const span = spans_.map().span_of(object);
  // What has no span is freed wrongly, and the first shard says so. acquire: the shard's list is
  // seen; the span may move to another shard meanwhile, and the list looks again.
  const unsigned shard =
      span == nullptr ? 0
                      : std::atomic_ref<std::uint8_t>(span->shard).load(std::memory_order_acquire);
  // One of another heap may say a shard that there is not here.
  return *shards_[shard < shard_count() ? shard : 0];
}

/// Finds the shards that own objects. Remembers the latest pages, since a batch comes from few of
/// them.
class Central::Owners {
 public:
  explicit Owners(const Central& central) noexcept : central_(central) {}

  CentralShard* of(const void* object) noexcept {
    const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(object) >> kPageShift;
    const std::size_t place = page % kPlaces;
    if (pages_[place] != page) [[unlikely]] {
      pages_[place] = page;
      shards_[place] = &central_.owner_of(object);
    }
    return shards_[place];
  }

  /// Whether all objects belong to `owner`, judging by every seventh. Large objects lie on a page
  /// each, and checking all of them took a fifth of their time. A missed object of another shard
  /// passes through the owner's transfer cache once more.
  bool seem_to_be(const CentralShard* owner, void* const* objects, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; i += kLookAtEvery) {
      if (of(objects[i]) != owner) return false;
    }
    return true;
  }

  /// Moves the objects of other shards to the front.
  /// \returns  how many they are
  std::size_t sort(const CentralShard* owner, void** objects, std::size_t count) noexcept {
    std::size_t others = 0;
    for (std::size_t i = 0, mine = count; i < mine;) {
      if (of(objects[i]) == owner) {
        std::swap(objects[i], objects[--mine]);
      } else {
        others = ++i;
      }
    }
    return others;
  }

 private:
  static constexpr std::size_t kPlaces = 8;
  // Chosen: no divisor of the lengths that batches, and patterns in them, have.
  static constexpr std::size_t kLookAtEvery = 7;

  const Central& central_;
  std::uintptr_t pages_[kPlaces] = {};  // no object is on page 0
  CentralShard* shards_[kPlaces] = {};
};

/// Whether the objects lie in the shard's spans, judging by kLooks of them.
bool Central::seem_to_be_of(const CentralShard& shard, void* const* objects,
                            std::size_t count) const noexcept {
  // Chosen: a batch half of which is others' passes once in sixteen times.
  constexpr std::size_t kLooks = 4;
  for (std::size_t look = 0; look < kLooks; ++look) {
    if (&owner_of(objects[(count - 1) * look / (kLooks - 1)]) != &shard) return false;
  }
  return true;
}

void Central::release(Place& place, unsigned size_class, void** objects,
                      std::size_t count) noexcept {
  CentralShard& shard = place.shard_of(size_class);
  const unsigned own_lane = place.lane_of(size_class);
  bool was_busy = false;
  const auto release_to = [&](CentralShard& owner, void** of_owner, std::size_t owned) {
    const unsigned lane = &owner == &shard ? own_lane : place.lane_;
    const CentralList::Released released = owner.try_release(size_class, of_owner, owned, lane);
    if (!released.was_busy) [[likely]]
      return released.left;
    was_busy |= &owner == &shard;
    return release_past(owner, size_class, of_owner, released.left);
  };
  if (shard_count() == 1) {
    // There may be more shards by now, and spans that have moved to them.
    count = release_to(first_, objects, count);
  } else if (count < kLeastBatch || !keeps_apart(size_class) ||
             seem_to_be_of(shard, objects, count)) {
    // A batch that has come from others goes home, and its like does not come again.
    count -= shard.keep(size_class, objects, count, own_lane);
  }
  while (count != 0) {
    // Those of one shard go together.
    Owners owners(*this);
    CentralShard* const owner = owners.of(objects[count - 1]);
    const std::size_t others =
        owners.seem_to_be(owner, objects, count - 1) ? 0 : owners.sort(owner, objects, count - 1);
    count = others + release_to(*owner, objects + others, count - others);
  }
  if (was_busy) [[unlikely]]
    note_met(place, size_class);
}

/// Releases objects whose list is busy: stores them in transfer caches (first lane) of other
/// shards. If none has room, waits for the list.
/// \returns  how many are left, at the front, to be looked up again
[[gnu::noinline]] std::size_t Central::release_past(CentralShard& busy, unsigned size_class,
                                                    void** objects, std::size_t count) noexcept {
  first_of_others(busy.index(), [&](CentralShard& other) {
    count -= other.try_store(size_class, objects, count);
    return count == 0;
  });
  return count != 0 ? busy.release_to_spans(size_class, objects, count, Was::kInUse) : 0;
}

void Central::release_to_spans(unsigned size_class, void** objects, std::size_t count,
                               Was was) noexcept {
  while (count != 0) count = owner_of(*objects).release_to_spans(size_class, objects, count, was);
}

std::size_t Central::release_homeward(void** objects, std::size_t count, Was was) noexcept {
  // Where one class compacts, the list looks up what it takes anyway; what is another's is left.
  const HomewardList list = homeward_list_of(*objects);
  std::size_t left = count;
  if (list == homeward_list_of(objects[count / 2]) && list == homeward_list_of(objects[count - 1]))
    left = owner_of(*objects).release_to_spans(list.size_class, objects, count, was,
                                               CentralList::Classes::kAny);
  const std::size_t bytes = (count - left) * SizeClassMap::bytes_of(list.size_class);
  return bytes + sort_homeward(objects, left, was);
}

Central::HomewardList Central::homeward_list_of(const void* object) const noexcept {
  Span* const span = spans_.map().span_of(object);
  if (span == nullptr || span->free_bits == nullptr)
    CentralList::die_of_wrong_class(spans_, object);
  return {span->size_class,
          std::atomic_ref<std::uint8_t>(span->shard).load(std::memory_order_acquire)};
}

/// Returns homeward objects of several lists to their spans, grouped by list.
/// \returns  their bytes
std::size_t Central::sort_homeward(void** objects, std::size_t count, Was was) noexcept {
  STRATA_DCHECK(count <= kMostHomeward);
  std::size_t bytes = 0;
  HomewardList lists[kMostHomeward];
  for (std::size_t i = 0; i < count; ++i) {
    lists[i] = homeward_list_of(objects[i]);
    bytes += SizeClassMap::bytes_of(lists[i].size_class);
  }
  while (count != 0) {
    const HomewardList list = lists[count - 1];
    std::size_t others = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (lists[i] == list) continue;
      std::swap(lists[i], lists[others]);
      std::swap(objects[i], objects[others++]);
    }
    release_to_spans(list.size_class, objects + others, count - others, was);
    count = others;
  }
  return bytes;
}

}  // namespace strata
