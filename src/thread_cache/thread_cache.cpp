#include "thread_cache/thread_cache.h"

#include <algorithm>
#include <cstring>

#include "base/move_words.h"

namespace strata {
namespace {

// Chosen: other threads wait at a list for at most so many objects, some 5 µs.
constexpr std::size_t kFlushObjects = 256;
// Chosen: after a class has moved, its freed objects bypass the bin, a tenth of a microsecond each,
// until the thread has freed kSettlingFrees and allocates again, or kSettlingObjects were allocated
// and freed.
constexpr std::uint16_t kSettlingFrees = 64;
constexpr std::uint16_t kSettlingObjects = 2048;
// Chosen: how many objects are claimed at a time meanwhile. With as many as the bin has slots for,
// eight threads that hand objects over took 10% more memory.
constexpr std::size_t kSettlingBatch = 32;
// Chosen: how many homeward objects may wait in their bin, and how many bytes of them.
constexpr std::size_t kLeastHomeward = 16;
constexpr std::size_t kHomewardBytes = std::size_t{128} << 10;
// Derived: what the bin holds goes home in one batch.
constexpr std::size_t kHomewardSlots = Central::kMostHomeward;
static_assert(kHomewardSlots <= kFlushObjects);

}  // namespace

static_assert(sizeof(ThreadCache) <= 4096, "a thread costs as much bookkeeping as a small OS page");

// Nothing is ever pushed to them or popped: the loader makes them read-only.
[[gnu::section(".data.rel.ro.bins")]] constinit EmptyBins EmptyBins::g_all;

ThreadCache::ThreadCache(Central& central, CacheBudget& budget, MetadataArena& metadata) noexcept
    : central_(&central), place_(central), budget_(&budget), metadata_(&metadata) {
  for (unsigned c = 0; c < SizeClassMap::kBins; ++c) {
    bases_[c] = tops_[c];
  }
}

ThreadCache::Hidden::Hidden(ThreadCache& cache) noexcept : owner_(cache.owner_) {
  if (owner_ == nullptr) return;
  before_ = {&owner_->for_malloc(), owner_->free_bins, owner_->verified_bins};
  ObjectBins* const none = &EmptyBins::g_all[EmptyBins::kHidden];
  show({none, none, none});
}

ThreadCache::Hidden::~Hidden() {
  if (owner_ != nullptr) show(before_);
}

/// The fences are for the compiler: what is done while the bins are hidden stays there.
void ThreadCache::Hidden::show(const Seen& seen) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  owner_->set_malloc_bins(*seen.malloc_bins);
  owner_->free_bins = seen.free_bins;
  owner_->verified_bins = seen.verified_bins;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void* ThreadCache::refill_and_pop(unsigned size_class) noexcept {
  LockGuard guard(bins_lock_);
  Hidden hidden(*this);
  if (rounds_up(size_class)) size_class = SizeClassMap::rounded_up(size_class);
  close_gaps(size_class);
  if (void* object = pop(size_class)) return object;
  if (top_up(size_class)) return pop(size_class);
  // No memory, or no share left, not even for one object.
  void* object = nullptr;
  if (capacity(size_class) == 0) central_->claim(place_, size_class, &object + 1, 1);
  return object;
}

/// Whether the next object of the class is to be of a larger class; counts it if so.
bool ThreadCache::rounds_up(unsigned size_class) noexcept {
  if (capacity(size_class) != 0 || size_class >= kRoundedUpClasses ||
      rounded_up_[size_class] == kRoundedUp || !central_->may_round_up(size_class)) {
    return false;
  }
  ++rounded_up_[size_class];
  return true;
}

/// Grows the bin and fills half of it.
/// \returns  false if it was at least half full, or nothing came
/// \pre      the bin has no gaps
bool ThreadCache::top_up(unsigned size_class) noexcept {
  look_at_heap();
  if (lasting_bytes_ != 0) [[unlikely]]
    shrink_if_heap_grew();
  std::size_t wanted;
  if (settling_[size_class].is_on() && !end_settling(size_class)) [[unlikely]] {
    wanted = std::min(slot_counts_[size_class] / std::size_t{2}, kSettlingBatch);
  } else {
    ask_for_room(size_class, Slow::kDry);
    wanted = batch(size_class);
  }
  const std::size_t before = held(size_class);
  if (before >= wanted) return false;
  void** const first = tops_[size_class] + 1;
  const std::size_t missing = wanted - before;
  const std::size_t count = central_->claim(place_, size_class, first + missing, missing);
  if (count < missing) move_words(first, first + (missing - count), count);
  set_top(size_class, tops_[size_class] + count);
  countdown_ -= static_cast<std::int64_t>(count);
  const bool has_moved = place_.take_moved(size_class);
  if (has_moved || settling_[size_class].is_on()) [[unlikely]]
    settle(size_class, count, has_moved);
  return count != 0;
}

void ThreadCache::flush_and_push(unsigned size_class, void* object) noexcept {
  LockGuard guard(bins_lock_);
  Hidden hidden(*this);
  close_gaps(size_class);
  if (size_class == SizeClassMap::kHomeward) {
    make_room_homeward();
  } else if (settling_[size_class].is_on()) [[unlikely]] {
    return send_home(size_class, object);
  } else {
    if (capacity(size_class) == 0 && take_as_last(size_class, object)) return;
    if (lasting_bytes_ != 0) shrink_if_heap_grew();
    // Unless there is room now; that the object is the latest one the caller has excluded.
    if (tops_[size_class] == limits_[size_class]) make_room(size_class);
  }
  if (!push(size_class, object)) release(size_class, &object, 1);
}

/// Makes room in the full bin: grows or shrinks it, or flushes a batch.
void ThreadCache::make_room(unsigned size_class) noexcept {
  look_at_heap();
  if (holds_too_much(size_class, budget_->share_bytes())) {
    shrink(size_class);
  } else if (!ask_for_room(size_class, Slow::kOver)) {
    flush(size_class, batch(size_class));
  }
}

/// Sends objects of a bin to Central.
/// \returns  the bytes of those that were homeward
std::size_t ThreadCache::release(unsigned size_class, void** objects, std::size_t count,
                                 Way way) noexcept {
  const Was was = way == Way::kIdle ? Was::kIdle : Was::kInUse;
  if (size_class == SizeClassMap::kHomeward) return central_->release_homeward(objects, count, was);
  if (way == Way::kUsual) {
    central_->release(place_, size_class, objects, count);
  } else {
    central_->release_to_spans(size_class, objects, count, was);
  }
  return 0;
}

/// The same for many objects: other threads may be at the lists in between.
std::size_t ThreadCache::release_by_parts(unsigned size_class, void** objects, std::size_t count,
                                          Way way) noexcept {
  std::size_t bytes = 0;
  for (std::size_t done = 0; done < count; done += kFlushObjects)
    bytes += release(size_class, objects + done, std::min(count - done, kFlushObjects), way);
  return bytes;
}

/// Gives the bin of homeward objects its slots, or empties it if it is full. A thread that may hold
/// nothing has no such bin: each of these objects goes to its span at once.
void ThreadCache::make_room_homeward() noexcept {
  constexpr unsigned kBin = SizeClassMap::kHomeward;
  close_gaps(kBin);
  if (capacity(kBin) == 0) {
    const bool may_hold = budget_->share_bytes() != 0;
    if (may_hold && give_slots(kBin, kHomewardSlots))
      limits_[kBin] = bases_[kBin] + kHomewardSlots - 1;
  } else if (tops_[kBin] == limits_[kBin]) {
    const std::size_t count = held(kBin);
    const std::size_t object_bytes = flush(kBin, count) / count;
    limits_[kBin] = bases_[kBin] +
                    std::clamp(kHomewardBytes / object_bytes, kLeastHomeward, kHomewardSlots - 1);
  }
}

/// Takes an object of a class of which this thread has had none: another thread allocated it. Where
/// objects share cache lines, its neighbours may be that thread's. So the bin first gets objects of
/// its own, and uses this one after them.
/// \returns  false if objects are lines apart, or no others are to be had
bool ThreadCache::take_as_last(unsigned size_class, void* object) noexcept {
  if (!Central::shares_lines(size_class) || !top_up(size_class) ||
      tops_[size_class] == limits_[size_class]) {
    return false;
  }
  void** const first = bases_[size_class] + 1;
  std::memmove(first + 1, first, held(size_class) * sizeof(void*));
  *first = object;
  set_top(size_class, tops_[size_class] + 1);
  return true;
}

bool ThreadCache::flush_all(unsigned end_class, Way way) noexcept {
  LockGuard guard(bins_lock_);
  if (std::memcmp(tops_, bases_, sizeof tops_) == 0) return false;
  Hidden hidden(*this);
  bool had_any = false;
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) {
    if (c >= end_class && c != SizeClassMap::kHomeward) continue;
    if (held(c) == 0) continue;
    close_gaps(c);
    had_any |= held(c) != 0;
    flush(c, held(c), way);
  }
  return had_any;
}

std::size_t ThreadCache::count_objects(unsigned size_class) noexcept {
  LockGuard guard(bins_lock_);
  return count_held(size_class);
}

void ThreadCache::add_objects(Counts& counts) noexcept {
  LockGuard guard(bins_lock_);
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) counts[c] += count_held(c);
  constexpr unsigned kBin = SizeClassMap::kHomeward;
  for (std::size_t i = load_held(kBin); i != 0; --i) {
    if (const void* const object = load(bases_[kBin] + i)) ++counts[central_->class_of(object)];
  }
}

/// Counts objects claimed of a class that settles, or has moved: the bin takes no more back.
void ThreadCache::settle(unsigned size_class, std::size_t count, bool has_moved) noexcept {
  if (has_moved && central_->keeps_apart(size_class)) settling_[size_class] = {kSettlingObjects, 0};
  if (!settling_[size_class].is_on()) return;
  settling_[size_class].count(count);
  set_capacity(size_class, held(size_class));
}

/// Frees an object of a class that settles, past the full bin. The class has moved to another
/// shard: the thread's earlier objects lie among those of other threads, and are likely to be freed
/// last. A bin would keep them for ever, since it hands out first what was freed last.
void ThreadCache::send_home(unsigned size_class, void* object) noexcept {
  flush(size_class, held(size_class), Way::kToSpans);
  set_capacity(size_class, 0);
  if (!central_->try_release_to_span(size_class, object)) send_home_later(size_class, object);
  settling_[size_class].count(1);
  ++settling_[size_class].sent_home;
}

/// The object's list is busy. From a transfer cache the object would come back to this thread, or
/// to one of another shard. Where objects share lines, it waits in the homeward bin instead.
void ThreadCache::send_home_later(unsigned size_class, void* object) noexcept {
  constexpr unsigned kBin = SizeClassMap::kHomeward;
  if (Central::shares_lines(size_class)) {
    make_room_homeward();
    if (push(kBin, object)) return;
  }
  release(size_class, &object, 1);
}

/// Called when a class that settles is allocated again. Ends settling if enough of it was freed
/// before.
/// \pre      the bin is empty
/// \returns  whether settling has ended
bool ThreadCache::end_settling(unsigned size_class) noexcept {
  if (settling_[size_class].sent_home < kSettlingFrees) return false;
  settling_[size_class] = {};
  close_gaps(SizeClassMap::kHomeward);
  flush(SizeClassMap::kHomeward, held(SizeClassMap::kHomeward));
  return true;
}

/// Moves the bin to `count` slots, a power of two.
bool ThreadCache::give_slots(unsigned size_class, std::size_t count) noexcept {
  void** slots;
  if (inline_used_ + count <= kInlineSlots) {
    slots = inline_slots_ + inline_used_;
    inline_used_ += count;
  } else {
    slots = static_cast<void**>(metadata_->allocate(count * sizeof(void*)));
    if (slots == nullptr) return false;
  }
  void** const old = bases_[size_class];
  const std::size_t old_count = slot_counts_[size_class];
  move_words(slots, old, held(size_class) + 1);
  bases_[size_class] = slots;
  set_top(size_class, slots + (tops_[size_class] - old));
  limits_[size_class] = slots + (limits_[size_class] - old);
  slot_counts_[size_class] = static_cast<std::uint16_t>(count);
  take_slots_back(old, old_count);
  return true;
}

/// Frees outgrown slots. Those inside the cache itself stay unused.
void ThreadCache::take_slots_back(void** slots, std::size_t count) noexcept {
  const bool is_inline = slots >= inline_slots_ && slots < inline_slots_ + kInlineSlots;
  if (count != 0 && !is_inline) metadata_->deallocate(slots, count * sizeof(void*));
}

void ThreadCache::give_back_slots() noexcept {
  LockGuard guard(bins_lock_);
  for (unsigned c = 0; c < SizeClassMap::kBins; ++c) take_slots_back(bases_[c], slot_counts_[c]);
}

void ThreadCache::forget_objects() noexcept {
  LockGuard guard(bins_lock_);
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) {
    set_top(c, bases_[c]);
    has_gaps_[c] = false;
  }
  seen_ = taken_ = 0;
}

/// Moves the `count` coldest objects of the bin to Central.
/// \returns  the bytes of those that were homeward
std::size_t ThreadCache::flush(unsigned size_class, std::size_t count, Way way) noexcept {
  if (count == 0) return 0;
  void** const first = bases_[size_class] + 1;
  const std::size_t bytes = release_by_parts(size_class, first, count, way);
  set_top(size_class, tops_[size_class] - count);
  move_words(first, first + count, held(size_class));
  return bytes;
}

}  // namespace strata
