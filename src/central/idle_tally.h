#pragma once

#include <atomic>
#include <cstddef>

namespace strata {

/// What all lists and transfer caches say together: a hint, so that threads do not all add to one
/// word with every batch.
struct IdleTally {
  /// Bytes that are free in spans, on pages that were not decommitted, and in large transfer
  /// caches. relaxed: it guards nothing. Each adds what has come together, so it is off by that for
  /// each of them.
  std::atomic<std::ptrdiff_t> pending_bytes{0};

  /// Adds what `now` has become since the last call for `said`, if it is at least `step`.
  void tell(std::ptrdiff_t now, std::ptrdiff_t& said, std::ptrdiff_t step) noexcept {
    const std::ptrdiff_t unsaid = now - said;
    if (unsaid > -step && unsaid < step) return;
    pending_bytes.fetch_add(unsaid, std::memory_order_relaxed);
    said = now;
  }
};

}  // namespace strata
