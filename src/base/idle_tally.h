#pragma once

#include <strata/detail/cache_line.hpp>

#include <atomic>
#include <cstddef>

namespace strata {

/// The idle bytes that all parts of a layer have reported, together: a hint, so that threads do not
/// all add to one word with every batch. Every slow path reads it, so it has a cache line of its
/// own.
struct alignas(detail::kCacheLineBytes) IdleTally {
  /// relaxed: it guards nothing. At least what is there, except for what each part has not reported
  /// yet.
  std::atomic<std::ptrdiff_t> bytes{0};

  /// \cost  a load
  std::ptrdiff_t said() const noexcept { return bytes.load(std::memory_order_relaxed); }

  /// Reports `now` in place of `said`, if it is higher by at least `step`. Smaller changes wait for
  /// settle(): otherwise all threads would write here with each batch that comes and goes.
  void tell(std::ptrdiff_t now, std::ptrdiff_t& said, std::ptrdiff_t step) noexcept {
    if (now - said >= step) settle(now, said);
  }

  /// Reports `now` exactly.
  void settle(std::ptrdiff_t now, std::ptrdiff_t& said) noexcept {
    if (now == said) return;
    bytes.fetch_add(now - said, std::memory_order_relaxed);
    said = now;
  }
};

}  // namespace strata
