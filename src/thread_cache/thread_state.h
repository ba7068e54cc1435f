#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "span/page_place.h"
#include "thread_cache/object_bins.h"

namespace strata {

class ThreadCache;

/// A thread's thread-local storage: 64 bytes of static TLS, so that the library can be loaded with
/// dlopen.
///
/// malloc pops from one set of bins and free pushes to another. Both are the thread's ThreadCache,
/// unless a watcher redirects malloc (the detour): then malloc finds empty bins and takes the slow
/// path, which counts and pops from free's bins. While every free is verified, both sets are empty
/// and full for ever, and `verified_bins`, which are the cache's, are used after a check of the
/// object's state.
/// \threads  Its thread only, except malloc_bins and the two counts: the thread that begins or ends
///           a watch sets them for all threads (relaxed: a thread that sees it an allocation later
///           begins its watch an allocation later).
struct ThreadState {
  /// A count before its first allocation: the next one draws the interval.
  static constexpr std::int64_t kUndrawn = INT64_MIN / 2;

  ObjectBins* malloc_bins;
  ObjectBins* free_bins;
  ObjectBins* verified_bins;           ///< empty and full for ever, unless frees are verified
  ThreadCache* cache = nullptr;        ///< nullptr if it has none
  const void* moved = nullptr;         ///< where realloc last moved a block to
  std::int64_t bytes_left = kUndrawn;  ///< the allocation that takes it below 0 is chosen
  std::int64_t calls_left = kUndrawn;
  bool is_watching = false;             ///< the watcher's own allocations do not count
  bool is_in_window = false;            ///< calls_left chooses the allocation to guard
  PagePlace pages = {};                 ///< the shard that gives it pages
  std::int32_t frees_left = INT32_MAX;  ///< below 0: verified frees to be counted

  ObjectBins& for_malloc() noexcept {
    return *std::atomic_ref<ObjectBins*>(malloc_bins).load(std::memory_order_relaxed);
  }
  void set_malloc_bins(ObjectBins& bins) noexcept {
    std::atomic_ref<ObjectBins*>(malloc_bins).store(&bins, std::memory_order_relaxed);
  }

  void bypass_caches() noexcept {
    ObjectBins& direct = EmptyBins::g_all[EmptyBins::kDirect];
    cache = nullptr;
    is_in_window = false;
    free_bins = verified_bins = &direct;
    set_malloc_bins(direct);
  }

  /// Has malloc pop from `after`, if it still pops from `before`.
  void exchange_malloc_bins(ObjectBins& before, ObjectBins& after) noexcept {
    if (&before == &after) return;  // on every slow path, and worth two locked instructions there
    ObjectBins* expected = &before;
    std::atomic_ref<ObjectBins*>(malloc_bins)
        .compare_exchange_strong(expected, &after, std::memory_order_relaxed);
  }

  /// Counts an allocation.
  /// \returns  true if it is chosen
  bool count_down(std::size_t bytes) noexcept {
    const std::int64_t bytes_after = read(bytes_left) - static_cast<std::int64_t>(bytes);
    const std::int64_t calls_after = read(calls_left) - 1;
    write(bytes_left, bytes_after);
    write(calls_left, calls_after);
    return (bytes_after | calls_after) < 0;
  }

  /// The start of malloc's slow path while a watch is on: pops from the thread's own bins and
  /// counts the allocation.
  /// \returns  As ObjectBins::pop(). nullptr, without counting, if the bin is empty, a watch
  ///           chooses the allocation, none is on, or the class is exchanged: such an allocation
  ///           takes malloc's whole slow path, some 170 instructions.
  /// \cost     Some 40 instructions a malloc more than without a watch.
  void* pop_watched(unsigned size_class) noexcept {
    if (&for_malloc() == free_bins || size_class == 0 || ObjectBins::is_exchanged(size_class))
      return nullptr;
    const std::size_t bytes = SizeClassMap::bytes_of(size_class);
    const auto most = static_cast<std::int64_t>(bytes);
    if (read(bytes_left) < most || read(calls_left) < 1) return nullptr;
    void* const object = free_bins->pop_plain(size_class);
    if (object != nullptr) count_down(bytes);
    return object;
  }

  static std::int64_t read(std::int64_t& count) noexcept {
    return std::atomic_ref<std::int64_t>(count).load(std::memory_order_relaxed);
  }
  static void write(std::int64_t& count, std::int64_t value) noexcept {
    std::atomic_ref<std::int64_t>(count).store(value, std::memory_order_relaxed);
  }
};

}  // namespace strata
