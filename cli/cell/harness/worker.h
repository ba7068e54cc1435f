#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "harness/own_memory.h"
#include "shared/log_buckets.h"

namespace strata::cell {

/// A kind of operation whose latency is measured.
using LatencyKind = std::size_t;
inline constexpr LatencyKind kAlloc = 0;
inline constexpr LatencyKind kFree = 1;
inline constexpr std::size_t kMaxLatencies = 8;

/// The latencies of one kind of operation, in picoseconds.
struct Latencies {
  OwnMemory<std::uint64_t> buckets;  ///< LogBuckets::kCount of them; empty before the first sample
  std::uint64_t count = 0;
  std::uint64_t sum_ps = 0;
  std::uint64_t max_ps = 0;

  void record(std::uint64_t ps) {
    if (count == 0 && buckets.size() == 0) {
      buckets = OwnMemory<std::uint64_t>(LogBuckets::kCount);
    }
    ++buckets[LogBuckets::index_of(ps)];
    ++count;
    sum_ps += ps;
    if (ps > max_ps) max_ps = ps;
  }
};

/// The counters of one thread of the load, in their own cache lines.
/// \threads  Its thread while it runs; the report while the threads rest.
struct alignas(128) Worker {
  int thread = 0;          ///< from 0
  std::uint64_t seed = 0;  ///< of this thread's random generator, the same for every contender
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failed_allocations = 0;
  std::uint64_t faults_elsewhere = 0;  ///< of threads that a batch started and joined
  std::uint32_t stamps = 0;            ///< numbers given to blocks so far
  std::array<Latencies, kMaxLatencies> latencies;

  /// Of the thread, in lists with an entry for each.
  std::size_t index() const noexcept { return static_cast<std::size_t>(thread); }

  /// Returns a stamp that no live block of any thread has (except after a wrap); odd for a whole
  /// stamp.
  std::uint32_t next_stamp(bool is_whole) noexcept {
    std::uint32_t number = ++stamps * 0x2545f491u + static_cast<std::uint32_t>(thread);
    return number << 1 | (is_whole ? 1u : 0u);
  }
};

}  // namespace strata::cell
