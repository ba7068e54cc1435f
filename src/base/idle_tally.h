#pragma once

#include <strata/detail/cache_line.hpp>

#include <atomic>
#include <cstddef>

namespace strata {

/// What all parts of a layer say together of what is idle in them: a hint, so that threads do not
/// all add to one word with every batch. Every slow path reads it: it has a cache line of its own.
struct alignas(detail::kCacheLineBytes) IdleTally {
  /// relaxed: it guards nothing. At least what is there, but for what each has not said yet.
  std::atomic<std::ptrdiff_t> bytes{0};

  /// \cost  a load
  std::ptrdiff_t said() const noexcept { return bytes.load(std::memory_order_relaxed); }

  /// Adds what `now` is above `said`, if it is at least `step`. What is less is not said before
  /// settle(): batches that come and go would have all threads write here for each of them.
  void tell(std::ptrdiff_t now, std::ptrdiff_t& said, std::ptrdiff_t step) noexcept {
    if (now - said >= step) settle(now, said);
  }

  /// Says exactly what there is.
  void settle(std::ptrdiff_t now, std::ptrdiff_t& said) noexcept {
    if (now == said) return;
    bytes.fetch_add(now - said, std::memory_order_relaxed);
    said = now;
  }
};

}  // namespace strata
