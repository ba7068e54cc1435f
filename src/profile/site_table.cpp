#include "profile/site_table.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/fatal.h"
#include "os/text_parts.h"
#include "profile/sampling.h"

namespace strata {
namespace {

std::uint64_t hash_of(const std::uintptr_t* frames, std::size_t depth, std::size_t rate,
                      const HeapLabel* heap) noexcept {
  std::uint64_t hash = rate ^ (heap != nullptr ? std::uint64_t{heap->number} << 32 : 0);
  for (std::size_t i = 0; i < depth; ++i) {
    hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

void Site::add(std::size_t counted, std::size_t bytes) noexcept {
  const std::uint64_t weight = Sampling::weight(rate, counted);
  allocated_objects.fetch_add(weight, std::memory_order_relaxed);
  allocated_bytes.fetch_add(weight * bytes, std::memory_order_relaxed);
}

void Site::remove(std::size_t counted, std::size_t bytes) noexcept {
  const std::uint64_t weight = Sampling::weight(rate, counted);
  freed_objects.fetch_add(weight, std::memory_order_release);
  freed_bytes.fetch_add(weight * bytes, std::memory_order_release);
}

Site::Sums Site::sums() const noexcept {
  const auto whole = [](std::uint64_t sum) { return (sum + Sampling::kOne / 2) / Sampling::kOne; };
  const std::uint64_t objects_gone = freed_objects.load(std::memory_order_acquire);
  const std::uint64_t bytes_gone = freed_bytes.load(std::memory_order_acquire);
  const std::uint64_t objects = allocated_objects.load(std::memory_order_relaxed);
  const std::uint64_t bytes = allocated_bytes.load(std::memory_order_relaxed);
  // Sums go round at 2^64, what is between two of them does not.
  const auto live = [&](std::uint64_t sum, std::uint64_t gone) {
    const auto left = static_cast<std::int64_t>(sum - gone);
    return left > 0 ? whole(static_cast<std::uint64_t>(left)) : 0;
  };
  return {whole(objects), whole(bytes), live(objects, objects_gone), live(bytes, bytes_gone)};
}

std::uint32_t SiteTable::intern(const std::uintptr_t* frames, std::size_t depth, std::size_t rate,
                                const HeapLabel* heap) noexcept {
  if (depth > kMaxDepth) depth = kMaxDepth;
  const std::uint64_t hash = hash_of(frames, depth, rate, heap);
  LockGuard guard(lock_);
  const std::uint32_t id = find_or_make(hash, frames, depth, rate, heap);
  if (id != 0 || depth == 0) return id;
  tells_all_apart_.store(false, std::memory_order_relaxed);
  return find_or_make(hash_of(frames, 0, rate, heap), frames, 0, rate, heap);
}

std::uint32_t SiteTable::find_or_make(std::uint64_t hash, const std::uintptr_t* frames,
                                      std::size_t depth, std::size_t rate,
                                      const HeapLabel* heap) noexcept {
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count >= bucket_count_ && !grow() && bucket_count_ == 0) return 0;
  std::uint32_t& head = buckets_[hash & (bucket_count_ - 1)];
  for (std::uint32_t id = head; id != 0; id = site(id).next) {
    const Site& known = site(id);
    if (known.hash == hash && known.rate == rate && known.heap == heap && known.depth == depth &&
        std::equal(frames, frames + depth, known.frames)) {
      return id;
    }
  }
  if (count >= (depth != 0 ? kMaxStacks : kMaxSites)) return 0;
  Site* const made = make_site(frames, depth);
  if (made == nullptr) return 0;
  made->hash = hash;
  made->rate = rate;
  made->heap = heap;
  made->next = head;
  head = count + 1;
  count_.store(count + 1, std::memory_order_release);
  return count + 1;
}

/// Makes a site in the newest chunk, with its frames.
/// \returns  nullptr when out of memory
Site* SiteTable::make_site(const std::uintptr_t* frames, std::size_t depth) noexcept {
  const Place place(count_.load(std::memory_order_relaxed));
  std::atomic<Site*>& chunk = chunks_[place.chunk];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    void* memory = metadata_.allocate(Place::sites_in(place.chunk) * sizeof(Site));
    if (memory == nullptr) return nullptr;
    chunk.store(static_cast<Site*>(memory), std::memory_order_relaxed);
  }
  std::uintptr_t* kept = nullptr;
  if (depth != 0) {
    kept = static_cast<std::uintptr_t*>(metadata_.allocate(depth * sizeof *frames));
    if (kept == nullptr) return nullptr;
    std::memcpy(kept, frames, depth * sizeof *frames);
  }
  Site* made = new (chunk.load(std::memory_order_relaxed) + place.index) Site{};
  made->frames = kept;
  made->depth = static_cast<std::uint32_t>(depth);
  return made;
}

const HeapLabel* SiteTable::find_label(std::string_view name) const noexcept {
  const HeapLabel* known = labels();
  while (known != nullptr && name != known->text) known = known->next;
  return known;
}

const HeapLabel* SiteTable::label(std::string_view name) noexcept {
  name = name.empty() ? "unnamed" : os::start_of(name, HeapLabel::kMostBytes);
  LockGuard guard(lock_);
  if (const HeapLabel* const known = find_label(name)) return known;
  const HeapLabel* const latest = labels_.load(std::memory_order_relaxed);
  const std::uint32_t number = latest != nullptr ? latest->number + 1 : 1;
  if (number >= kMostLabels) name = "others";
  if (number > kMostLabels) return find_label(name);
  void* const memory = metadata_.allocate(sizeof(HeapLabel));
  if (memory == nullptr) return nullptr;
  auto* const made = new (memory) HeapLabel{latest, number, {}};
  std::memcpy(made->text, name.data(), name.size());
  labels_.store(made, std::memory_order_release);
  return made;
}

/// Doubles the buckets.
/// \returns  false when out of memory: the walks become longer
bool SiteTable::grow() noexcept {
  const std::uint32_t wanted = bucket_count_ == 0 ? kFirstBuckets : 2 * bucket_count_;
  auto* buckets = static_cast<std::uint32_t*>(metadata_.allocate(wanted * sizeof(std::uint32_t)));
  if (buckets == nullptr) return false;
  std::memset(buckets, 0, wanted * sizeof(std::uint32_t));
  for (std::uint32_t id = 1; id <= count_.load(std::memory_order_relaxed); ++id) {
    Site& moved = site(id);
    std::uint32_t& head = buckets[moved.hash & (wanted - 1)];
    moved.next = head;
    head = id;
  }
  if (bucket_count_ != 0) metadata_.deallocate(buckets_, bucket_count_ * sizeof(std::uint32_t));
  buckets_ = buckets;
  bucket_count_ = wanted;
  return true;
}

void SiteTable::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::uint32_t found = 0;
  for (std::uint32_t bucket = 0; bucket < bucket_count_; ++bucket) {
    for (std::uint32_t id = buckets_[bucket]; id != 0; id = site(id).next) {
      const Site& known = site(id);
      STRATA_INVARIANT((known.hash & (bucket_count_ - 1)) == bucket, "a site is in a wrong bucket");
      STRATA_INVARIANT(known.hash == hash_of(known.frames, known.depth, known.rate, known.heap),
                       "a site's frames have changed");
      ++found;
    }
  }
  STRATA_INVARIANT(found == count_.load(std::memory_order_relaxed), "a site is in no bucket");
}

}  // namespace strata
