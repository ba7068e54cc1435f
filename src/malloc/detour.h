#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guard/allocation.h"
#include "malloc/engine.h"
#include "thread_cache/thread_state.h"

namespace strata {

/// While it lives, no watcher sees the thread's allocations, and they leave no trace in the counts:
/// at the end these are set to their old values, or to values drawn meanwhile.
class WatchPause {
 public:
  explicit WatchPause(ThreadState& thread) noexcept
      : bytes_left(ThreadState::read(thread.bytes_left)),
        calls_left(ThreadState::read(thread.calls_left)),
        thread_(thread),
        malloc_bins_(thread.for_malloc()),
        is_redirected_(&malloc_bins_ != thread.free_bins),
        was_watching_(thread.is_watching) {
    thread.is_watching = true;
    thread.exchange_malloc_bins(malloc_bins_, *thread.free_bins);
  }
  ~WatchPause() {
    // Otherwise the thread may have got other bins meanwhile, which are for both.
    if (is_redirected_) thread_.exchange_malloc_bins(*thread_.free_bins, malloc_bins_);
    ThreadState::write(thread_.bytes_left, bytes_left);
    ThreadState::write(thread_.calls_left, calls_left);
    thread_.is_watching = was_watching_;
  }
  WatchPause(const WatchPause&) = delete;
  WatchPause& operator=(const WatchPause&) = delete;

  std::int64_t bytes_left;
  std::int64_t calls_left;

 private:
  ThreadState& thread_;
  ObjectBins& malloc_bins_;
  const bool is_redirected_;
  const bool was_watching_;
};

/// A feature that sees some allocations: a profile, guard pages. The Detour hands it the chosen
/// ones; it decides how far apart they are.
///
/// The calling thread is marked (ThreadState::is_watching): the watcher's own allocations are
/// neither counted nor chosen. It is called with no lock of ours held. Functions have bodies
/// instead of = 0, which would need the C++ runtime.
/// \threads  Any number at once.
class Watcher {
 public:
  /// The distance to the next choice, in bytes or in calls: the allocation that exceeds it is
  /// chosen. Each thread draws its own; an allocation counts with the size of its class.
  virtual std::int64_t draw_interval() noexcept { return INT64_MAX / 4; }

  /// Makes the block for a chosen allocation. It is in no size class of the page map, so free and
  /// realloc of it take the slow path.
  /// \returns  nullptr: serve this one like any other.
  virtual Engine::Block allocate(const Allocation& allocation) noexcept { return {nullptr, false}; }

  /// Tells of a chosen block that exists already: a large one that realloc resized in place.
  virtual void adopt(void* p, std::size_t bytes) noexcept {}

 protected:
  ~Watcher() = default;
};

/// Lets watchers see allocations, at no cost to programs without watchers and little to others.
/// While one watches, every thread's malloc finds empty bins and takes the slow path. There an
/// allocation is counted (ThreadState::pop_watched) and served from the thread's cache as usual,
/// unless it is the chosen one. Free is unchanged: a watched block is in no size class, so its free
/// takes the slow path anyway.
///
/// There is room for two watchers, one per unit of intervals: a choice per so many bytes, or per so
/// many calls. A watcher keeps its place when its watch ends, since its blocks live on.
/// MallocInstance owns the detour.
/// \threads  Any number at once, but begin() and end() of one unit one at a time.
class Detour {
 public:
  enum Unit : unsigned { kByBytes, kByCalls, kUnits };

  constexpr Detour(Engine& engine, ObjectBins& empty_bins) noexcept
      : engine_(engine), empty_bins_(empty_bins) {}

  /// Starts to count every thread's allocations.
  void begin(Unit unit, Watcher& watcher) noexcept;
  /// Stops choosing allocations; without another watch malloc is as fast as before.
  void end(Unit unit) noexcept;

  /// How many bytes an allocation counts for.
  static constexpr std::size_t counted(unsigned size_class, std::size_t bytes) noexcept {
    return size_class != 0 ? SizeClassMap::bytes_of(size_class) : bytes + 1;
  }

  bool is_on() const noexcept { return active_.load(std::memory_order_relaxed) != 0; }
  bool is_on(Unit unit) const noexcept {
    return (active_.load(std::memory_order_acquire) >> unit & 1) != 0;
  }
  /// True from the first watch on: there may be watched blocks.
  bool has_watchers() const noexcept { return has_watchers_.load(std::memory_order_relaxed); }

  /// For an allocation that pop_watched() did not serve: counts it, draws the next interval if one
  /// is over, and asks the watcher.
  /// \returns  nullptr: serve it like any other.
  Engine::Block allocate(ThreadState& thread, unsigned size_class,
                         const Allocation& allocation) noexcept;
  /// The same for a block that was resized in place.
  void adopt(ThreadState& thread, void* p, std::size_t bytes) noexcept;

 private:
  // Chosen: how far a count without a watcher runs before it is checked again.
  static constexpr std::int64_t kNoInterval = 1u << 20;

  Watcher* chooser(Unit unit, std::int64_t& left) noexcept;

  Engine& engine_;
  ObjectBins& empty_bins_;
  // Both are set before the watcher's bit in active_: a thread that sees the bit sees them. release
  // and acquire: it may be the bit of an earlier watch.
  std::atomic<Watcher*> watchers_[kUnits] = {};
  // relaxed: a watched block reaches another thread only through synchronization.
  std::atomic<bool> has_watchers_{false};
  // Bit u: the watcher by unit u chooses. release when a watch begins, acquire before the watcher
  // is called, so that it is complete. Threads may see a beginning or an end late.
  std::atomic<unsigned> active_{0};
};

}  // namespace strata
