#include "malloc/detour.h"

namespace strata {
namespace {

// Chosen: no address space has so much. Larger requests fail, and are not counted.
constexpr std::size_t kMostCounted = std::size_t{1} << 60;
static_assert(std::int64_t{kMostCounted} < ThreadState::kUndrawn - INT64_MIN,
              "a count that begins undrawn has room for an allocation");

}  // namespace

void Detour::begin(Unit unit, Watcher& watcher) noexcept {
  watchers_[unit].store(&watcher, std::memory_order_release);
  has_watchers_.store(true, std::memory_order_relaxed);
  active_.fetch_or(1u << unit, std::memory_order_release);
  engine_.registry().redirect_malloc(&empty_bins_);
}

void Detour::end(Unit unit) noexcept {
  const unsigned before = active_.fetch_and(~(1u << unit), std::memory_order_relaxed);
  if ((before & ~(1u << unit)) == 0) engine_.registry().redirect_malloc(nullptr);
}

/// Checks a count that may be below zero.
/// \returns  the watcher if it chose this allocation; the next interval is drawn then
Watcher* Detour::chooser(Unit unit, std::int64_t& left) noexcept {
  if (left >= 0) return nullptr;
  if (!is_on(unit)) {
    left = kNoInterval;
    return nullptr;
  }
  Watcher* const watching = watchers_[unit].load(std::memory_order_acquire);
  // The first interval begins before this allocation.
  if (left < ThreadState::kUndrawn / 2) left += watching->draw_interval() - ThreadState::kUndrawn;
  if (left >= 0) return nullptr;
  left = watching->draw_interval();
  return watching;
}

Engine::Block Detour::allocate(ThreadState& thread, unsigned size_class,
                               const Allocation& allocation) noexcept {
  if (allocation.bytes > kMostCounted) return {nullptr, false};
  if (thread.is_watching || !thread.count_down(counted(size_class, allocation.bytes)))
    return {nullptr, false};
  WatchPause pause(thread);
  Watcher* const by_bytes = chooser(kByBytes, pause.bytes_left);
  Watcher* const by_calls = chooser(kByCalls, pause.calls_left);
  Engine::Block block{nullptr, false};
  if (by_bytes != nullptr) block = by_bytes->allocate(allocation);
  if (by_calls != nullptr && block.address == nullptr) block = by_calls->allocate(allocation);
  return block;
}

void Detour::adopt(ThreadState& thread, void* p, std::size_t bytes) noexcept {
  if (thread.is_watching) return;
  WatchPause pause(thread);
  Watcher* const by_bytes = chooser(kByBytes, pause.bytes_left);
  Watcher* const by_calls = chooser(kByCalls, pause.calls_left);
  if (by_bytes != nullptr) by_bytes->adopt(p, bytes);
  if (by_calls != nullptr) by_calls->adopt(p, bytes);
}

}  // namespace strata
