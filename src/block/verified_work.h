#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

/// \file  What a contender must prove before it is timed: a pool that fails most allocations, or
///        hands out a block twice, would be the fastest of all.

namespace strata::bench {

inline std::vector<std::uint32_t> shuffled(std::size_t n) {
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  return order;
}

/// Takes n blocks three times, and frees them in random order in between. Each block must be there,
/// be distinct from the others and hold its bytes.
/// \returns  The number of failures: blocks that were nullptr, handed out twice or overwritten.
template <typename Pool>
std::size_t failures_of(Pool& pool, std::size_t n, std::size_t bytes) {
  std::size_t failures = 0;
  const auto order = shuffled(n);
  std::vector<unsigned char*> live(n);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < n; ++i) {
      live[i] = static_cast<unsigned char*>(pool.allocate());
      if (live[i] != nullptr) {
        std::memset(live[i], static_cast<int>(i), bytes);
      } else {
        ++failures;
      }
    }
    failures += n - std::set<unsigned char*>(live.begin(), live.end()).size();
    for (std::uint32_t i : order) {
      if (live[i] == nullptr) continue;
      failures += static_cast<std::size_t>(
                      std::count(live[i], live[i] + bytes, static_cast<unsigned char>(i))) != bytes;
      pool.deallocate(live[i]);
    }
  }
  return failures;
}

}  // namespace strata::bench
