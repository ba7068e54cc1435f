// The malloc's guard pages in every program, at no cost to the hot path.
//
// Each object that a thread's cache gets from the spans counts, and so does each allocation on the
// slow path. When a drawn number of them has passed (GuardWatcher) a window opens: for some
// allocations of any size, malloc in this thread pops from empty bins, as on the detour. The last
// of them is guarded: it is a call of the program, so its stack is known.
//
// Blocks beyond the size classes all take the slow path, and are chosen one by one: the first of a
// process, and fewer and fewer of those after it.

#include "malloc/malloc_instance.h"

namespace strata {
namespace {

// Chosen: a cache's first objects do not count, so that small programs spend no memory on guards
// and have no fault handler.
constexpr std::int64_t kUnguardedObjects = 16 * 1024;

}  // namespace

/// Opens a window, when a thread's count has run out.
[[gnu::cold]] void MallocInstance::open_window(ThreadState& thread,
                                               std::int64_t& countdown) noexcept {
  if (!guard_watcher_.opens_windows()) {
    countdown = INT64_MAX;
    return;
  }
  if (countdown < ThreadState::kUndrawn / 2) {
    // The first interval began with the cache's first object.
    countdown += kUnguardedObjects + guard_watcher_.draw_interval() - ThreadState::kUndrawn;
    if (countdown >= 0) return;
  }
  countdown = guard_watcher_.draw_interval();
  if (thread.is_in_window || thread.is_watching || detour_.is_on()) return;
  GuardPool& objects = guards_.objects();
  if (!objects.is_started()) host_.begin_guards(*this, objects, GuardPool::kForAllPrograms);
  if (!objects.is_started()) return;
  ThreadState::write(thread.calls_left, guard_watcher_.draw_window());
  ThreadState::write(thread.bytes_left, INT64_MAX / 2);
  thread.is_in_window = true;
  thread.exchange_malloc_bins(*thread.free_bins, fresh_bins());
}

/// Counts an allocation in a window that the thread's cache did not serve at once.
/// \returns  true if it is the one to guard; the window is closed then
bool MallocInstance::ends_window(ThreadState& thread) noexcept {
  const bool is_detour_on = detour_.is_on();
  if (!is_detour_on && !thread.count_down(0)) return false;
  thread.is_in_window = false;
  ThreadState::write(thread.calls_left, ThreadState::kUndrawn);
  ThreadState::write(thread.bytes_left, ThreadState::kUndrawn);
  if (!is_detour_on) engine_.registry().undirect_malloc(thread);
  return !is_detour_on;
}

/// \returns  a block without address: serve the allocation like any other
Engine::Block MallocInstance::serve_guarded(ThreadState& thread,
                                            const Allocation& allocation) noexcept {
  WatchPause pause(thread);
  return guard_watcher_.allocate(allocation);
}

/// The same for a block beyond the size classes that was chosen, or if all are.
[[gnu::cold]] Engine::Block MallocInstance::serve_guarded_block(
    ThreadState& thread, const Allocation& allocation) noexcept {
  // Where the address space is limited the program needs it for itself.
  if (thread.is_watching || !engine_.has_all_addresses()) return {nullptr, false};
  WatchPause pause(thread);
  GuardPool& blocks = guards_.blocks();
  if (!blocks.is_started()) {
    host_.begin_guards(
        *this, blocks,
        has_full_checks() ? GuardPool::kForBlocks : GuardPool::kForBlocksOfAllPrograms);
  }
  return {blocks.allocate(allocation.as_said()), true};
}

}  // namespace strata
