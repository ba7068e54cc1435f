// Which shard a thread uses, and when it moves to another.

#include <algorithm>
#include <new>

#include "central/central.h"

namespace strata {
namespace {

// Chosen: from this size on a bin holds few objects. With a smaller limit, `slots` with 16 threads
// took 1.5 times the memory; if small heaps were included, `ephemeral` took 1.07 times.
constexpr std::size_t kLargeObjectBytes = 4096;
// Chosen: up to so many shards per processor, most of their threads may run at once. Threads that
// only wait have shards, too.
constexpr unsigned kShardsAtOnce = 2;
// Chosen: one more shard than processors is worth it to a class that has so much for each. Then
// `slots` with 512 threads takes 0.82 of the memory at 1.03 of the time; with half of it 0.86.
constexpr std::size_t kBytesPerShard = std::size_t{256} << 10;

}  // namespace

void Central::enter(Place& place) noexcept {
  LockGuard guard(lock_);
  place.shard_->add_thread();
  place.has_thread_ = true;
  place.lane_ = threads_of_lane_[0] == 0 ? 0 : least_used_lane();
  ++threads_of_lane_[place.lane_];
}

[[gnu::noinline]] std::uint8_t Central::least_used_lane() const noexcept {
  return static_cast<std::uint8_t>(std::min_element(threads_of_lane_, threads_of_lane_ + lanes_) -
                                   threads_of_lane_);
}

/// Gives the first few threads that move to a shard its lanes in order.
std::uint8_t Central::next_lane_of(const CentralShard& moved_to) const noexcept {
  return static_cast<std::uint8_t>(moved_to.threads() %
                                   std::min(lanes_, CentralShard::kUsualLanes));
}

void Central::leave(Place& place) noexcept {
  forget(place);
  place.has_thread_ = false;
  place.met_ = 0;
}

void Central::forget(const Place& place) noexcept {
  LockGuard guard(lock_);
  place.shard_->remove_thread();
  --threads_of_lane_[place.lane_];
}

/// The thread found a lock that it needed busy.
void Central::note_met(Place& place, unsigned size_class) noexcept {
  if (is_left_behind(place, size_class)) return move_class(place, size_class);
  place.met_ += kClaimsPerWait;
  if (place.met_ < place.patience_) return;
  if (is_worth_a_shard(size_class)) return move_on(place, size_class);
  place.met_ = 0;
  lengthen_patience(place);
}

/// Whether the class may move to another shard because threads met. Where as many shards as
/// processors have it, those who meet mostly wait for a thread that does not run.
bool Central::is_worth_a_shard(unsigned size_class) const noexcept {
  unsigned shards = 0;
  std::size_t spans = 0;
  for_each_shard([&](const CentralShard& shard) {
    const CentralList* const list = shard.list(size_class);
    if (list == nullptr || list->span_count() == 0) return;
    ++shards;
    spans += list->span_count();
  });
  const std::size_t bytes = spans * span_pages_of(size_class) * kPageBytes;
  return shards < processors_ || bytes >= (shards + 1) * kBytesPerShard;
}

/// Whether the class is still in the first shard although the thread has moved to another one: a
/// class of large objects, whose batches seldom are as many as note_batch() waits for.
bool Central::is_left_behind(const Place& place, unsigned size_class) const noexcept {
  return processors_ > kFewProcessors && place.has_thread_ && place.shard_ != &first_ &&
         !place.has_moved(size_class) && SizeClassMap::bytes_of(size_class) >= kLargeObjectBytes &&
         is_large();
}

/// The thread got a batch from a shard. It moves if another thread gets batches of the class there,
/// too.
void Central::note_batch(Place& place, CentralShard& shard, unsigned size_class) noexcept {
  if (!keeps_apart(size_class)) return;
  const void* const user = shard.user(size_class);
  if (user != nullptr && user != &place) {
    place.met_ += kFirstPatience;
    if (!place.has_moved(size_class) || place.met_ >= place.patience_) move_on(place, size_class);
  }
  place.shard_of(size_class).note_user(size_class, &place);
}

bool Central::keeps_apart(unsigned size_class) const noexcept {
  return shard_count() <= kShardsAtOnce * processors_ || (shares_lines(size_class) && !is_large());
}

void Central::move_on(Place& place, unsigned size_class) noexcept {
  place.met_ = 0;
  if (!place.has_thread_) return;
  if (place.has_moved(size_class) || place.shard_ == &first_) move_thread(place);
  if (place.shard_ != &first_ && !place.has_moved(size_class)) move_class(place, size_class);
}

void Central::move_class(Place& place, unsigned size_class) noexcept {
  place.moved_[size_class] = true;
  place.just_moved_[size_class] = true;
}

void Central::lengthen_patience(Place& place) noexcept {
  place.patience_ = std::min(2 * place.patience_, kMostPatience);
}

void Central::move_thread(Place& place) noexcept {
  lengthen_patience(place);
  LockGuard guard(lock_);
  CentralShard* best = place.shard_;
  for_each_shard([&](CentralShard& shard) {
    if (shard.threads() < best->threads()) best = &shard;
  });
  // Its own thread counts in the shard that it leaves, and would in the one that it enters.
  if (best->threads() != 0 && best->threads() + 1 >= place.shard_->threads()) {
    if (place.shard_->threads() < 2) return;
    CentralShard* const made = make_shard();
    if (made == nullptr) return;
    best = made;
  }
  place.shard_->remove_thread();
  place.own_lane_ = best == &first_ ? place.lane_ : next_lane_of(*best);
  best->add_thread();
  place.shard_ = best;
  place.just_moved_ = place.moved_;
}

/// \returns  nullptr if there are as many as allowed, or when out of memory
CentralShard* Central::make_shard() noexcept {
  const unsigned count = count_.load(std::memory_order_relaxed);
  if (count >= most_) return nullptr;
  void* const memory = metadata_.allocate_forever(sizeof(CentralShard));
  if (memory == nullptr) return nullptr;
  shards_[count] = new (memory) CentralShard(spans_, metadata_, tally_, count, has_transfer_);
  // Where threads contend, a shard has few of them.
  shards_[count]->set_lanes(std::min(lanes_, CentralShard::kUsualLanes));
  count_.store(count + 1, std::memory_order_release);
  return shards_[count];
}

}  // namespace strata
