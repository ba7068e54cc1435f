// How a thread (the thief) takes objects out of another thread's cache while the owner runs on, at
// no cost to the owner's hot path.
//
// The owner pops by loading the slot at the top and then storing the top one lower. It pushes by
// storing a slot and then the top above it. It can be interrupted between the two steps for any
// time, so only two slots can be in flux: the one at the top (a pop that has the object but has not
// moved the top yet) and the one above it (a push that is not counted yet). For all other slots
// this holds:
//
//   1. The thief holds the bins' lock. So the owner is on its hot path or nowhere: every slow path
//      waits, and the bins do not move.
//   2. The thief exchanges the slots of a bin, except the top one, for nullptr. The owner may have
//      moved the top by then, so any of them can be above it. An owner that gets down to such a
//      slot finds the bin empty, takes the slow path, and waits there.
//   3. A barrier in all threads: from here on the owner sees each nullptr, and the thief sees all
//      that the owner did before. A pop that loaded its object before the exchange has stored the
//      top, or is still between its steps, and then the top is that slot.
//   4. The thief reads the top. After a second barrier it sees all slots that the owner stored
//      before it stored that top.
//   5. A slot below the top that is still nullptr: its object is the thief's. The owner cannot have
//      popped it, since to come back above the slot it must have pushed another object into it.
//      A slot below the top that is not nullptr: the owner popped the object before the exchange
//      and pushed another one after it. The object is not the thief's, which forgets it. The slot
//      at the top and those above: the owner may or may not have the object. The thief puts it back
//      where the slot is still nullptr. If the owner has it, the slot is above its top when it goes
//      on, and its contents mean nothing; if not, the slot is as it was. If the kernel refuses a
//      barrier, all of them go back this way.
//
// Large objects take less: the owner pops them by an exchange, too (ObjectBins). So an object
// belongs to the thread whose exchange has it, and the thief takes the one at the top as well. None
// goes back, since the owner may be pushing into an empty slot. The first barrier comes between
// reading a top and the exchange: a slot above the top may hold what was in it before, and the
// thief must not see a new top beside an old slot. The bin of homeward objects is taken in the same
// way, since the owner never pops from it.
//
// Gaps in a bin (slots of nullptr below the top) are closed by the owner's next slow path.

#include "thread_cache/thread_cache.h"

namespace strata {

/// A hash of what the owner changes when it uses the cache: all tops, and the objects there. Two
/// equal values mean that the cache was left alone, or was used and left as it had been; both may
/// be taken.
std::uint64_t ThreadCache::fingerprint() noexcept {
  std::uint64_t mixed = 1;
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) {
    void** const top = bases_[c] + load_held(c);
    mixed = (mixed ^ reinterpret_cast<std::uintptr_t>(top)) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ reinterpret_cast<std::uintptr_t>(load(top))) * 0x9e3779b97f4a7c15u;
  }
  return mixed;
}

std::size_t ThreadCache::take_over(Owners which, void** room, std::size_t room_slots,
                                   Barrier barrier) noexcept {
  Taken taken[SizeClassMap::kBins] = {};
  if (!take_from_bins(which, taken, room, room_slots, barrier)) return 0;
  const Way way = which == Owners::kIdle ? Way::kIdle : Way::kToSpans;
  std::size_t bytes = 0;
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) {
    if (taken[c].count == 0) continue;
    bytes += release_by_parts(c, taken[c].objects, taken[c].count, way);
    if (c != SizeClassMap::kHomeward) bytes += taken[c].count * SizeClassMap::bytes_of(c);
  }
  return bytes;
}

/// The five steps. Moves what is the thief's to `room`.
/// \returns  false if there was nothing to take, or no barrier
bool ThreadCache::take_from_bins(Owners which, Taken* taken, void** room, std::size_t room_slots,
                                 Barrier barrier) noexcept {
  LockGuard guard(bins_lock_);
  const std::uint64_t now = fingerprint();
  const bool is_idle = now == seen_;
  seen_ = now;
  if ((which == Owners::kIdle && !is_idle) || now == taken_) return false;
  bool has_taken_all = true;
  std::size_t used = 0;
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) {
    const std::size_t held = load_held(c);
    const std::size_t kept = is_exchanged(c) ? 0 : 1;
    if (held <= kept || (has_gaps_[c] && count_held(c) <= kept)) continue;
    if (held - kept > room_slots - used) {
      has_taken_all = false;
      continue;
    }
    taken[c] = {room + used, held - kept};
    used += held - kept;
  }
  if (used == 0) {
    taken_ = now;
    return false;
  }
  // Shows that there is a barrier, before anything depends on one. Where all slots are taken, it is
  // needed itself: each slot up to the top that was read has what the owner put there.
  if (!barrier()) return false;
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) {
    if (taken[c].count != 0) take_slots(c, taken[c].objects, taken[c].count);
  }
  bool is_ordered = barrier();
  std::size_t tops[SizeClassMap::kBins];
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) tops[c] = load_held(c);
  is_ordered = barrier() && is_ordered;
  for (unsigned c = 1; c < SizeClassMap::kBins; ++c) {
    // Where nothing shows whose they are, they go back.
    taken[c].count = sort_out(c, taken[c].objects, taken[c].count, is_ordered ? tops[c] : 0);
  }
  if (has_taken_all && is_ordered) taken_ = now;
  seen_ = fingerprint();  // without the large objects at the tops
  return true;
}

/// Exchanges the first `count` slots of the bin for nullptr.
void ThreadCache::take_slots(unsigned size_class, void** taken, std::size_t count) noexcept {
  has_gaps_[size_class] = true;
  void** const first = bases_[size_class] + 1;
  for (std::size_t i = 0; i < count; ++i) {
    // acquire pairs with push_on().
    taken[i] = std::atomic_ref<void*>(first[i]).exchange(nullptr, std::memory_order_acquire);
  }
}

/// Decides which objects are the thief's, given the owner's top, and moves them to the front of
/// `taken`. Puts back those that the owner may or may not have.
/// \returns  how many
std::size_t ThreadCache::sort_out(unsigned size_class, void** taken, std::size_t count,
                                  std::size_t top) noexcept {
  void** const base = bases_[size_class];
  std::size_t ours = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (taken[i] == nullptr) continue;  // a gap before
    void*& slot = base[i + 1];
    if (is_exchanged(size_class)) {
      taken[ours++] = taken[i];
    } else if (i + 1 < top) {
      if (load(&slot) == nullptr) taken[ours++] = taken[i];
    } else {
      void* expected = nullptr;
      // relaxed: only the owner reads it, and it has seen the object before.
      std::atomic_ref<void*>(slot).compare_exchange_strong(expected, taken[i],
                                                           std::memory_order_relaxed);
    }
  }
  return ours;
}

/// A signal handler that allocates between the exchange of a pop and the step after it leaves a gap
/// that nobody knows of. Nobody pops homeward objects.
bool ThreadCache::may_have_gaps(unsigned size_class) const noexcept {
  return has_gaps_[size_class] ||
         (is_exchanged(size_class) && size_class != SizeClassMap::kHomeward);
}

/// Moves the bin's objects together, over its gaps.
/// \pre  called by the owner
void ThreadCache::close_gaps(unsigned size_class) noexcept {
  if (!may_have_gaps(size_class)) return;
  has_gaps_[size_class] = false;
  void** end = bases_[size_class] + 1;
  for (void** slot = end; slot <= tops_[size_class]; ++slot) {
    if (*slot != nullptr) *end++ = *slot;
  }
  set_top(size_class, end - 1);
}

std::size_t ThreadCache::count_held(unsigned size_class) noexcept {
  const std::size_t held = load_held(size_class);
  if (!may_have_gaps(size_class)) return held;
  std::size_t count = 0;
  for (std::size_t i = 1; i <= held; ++i) count += load(bases_[size_class] + i) != nullptr;
  return count;
}

}  // namespace strata
