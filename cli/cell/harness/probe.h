#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/stamp.h"
#include "harness/stopwatch.h"
#include "harness/worker.h"

namespace strata::cell {

/// How closely a batch is measured. A scenario's loop is compiled once for each depth, so that a
/// plain batch has no overhead of the others.
enum class Depth {
  kPlain,     ///< blocks are stamped at both ends; gives the throughput
  kTimed,     ///< the same, and every operation is timed
  kVerified,  ///< every byte of every block is written and checked; nothing is measured
};

/// Ends the process: a block does not hold what its owner wrote.
[[noreturn]] void report_corruption(const Block& block) noexcept;

/// Scenarios allocate through a probe: it counts, stamps, checks, and times operations if kTimed.
///
/// A Memory has  void* allocate(std::size_t bytes)  and  void deallocate(void* p, std::size_t
/// bytes).  allocate returns nullptr on failure.
/// \threads  One; each thread has a probe over its own worker.
template <Depth kDepth>
class Probe {
 public:
  static constexpr Depth kLevel = kDepth;
  static constexpr bool kIsTimed = kDepth == Depth::kTimed;
  static constexpr bool kIsVerified = kDepth == Depth::kVerified;

  explicit Probe(Worker& worker) noexcept : worker_(worker) {}

  /// \returns  A stamped block; a false one if the contender has none. Such a failure is counted
  ///           and fails the cell, but the load goes on without the block.
  template <typename Memory>
  Block allocate(Memory& memory, std::size_t bytes) {
    void* address = time(kAlloc, [&] { return memory.allocate(bytes); });
    return adopt(address, bytes);
  }

  /// Checks the block, frees it and makes it false. Any thread may free it. Ignores a false block.
  template <typename Memory>
  void deallocate(Memory& memory, Block& block) {
    if (!block) return;
    check(block);
    ++worker_.frees;
    time(kFree, [&] { memory.deallocate(block.address, block.bytes); });
    block = Block();
  }

  /// Counts and stamps a block allocated in another way; accepts nullptr.
  Block adopt(void* address, std::size_t bytes) {
    return stamped(address, bytes, worker_.next_stamp(kIsVerified));
  }

  /// The same with a number from which the scenario can recompute the stamp. Two live blocks should
  /// not have the same number.
  /// \pre  number < 2^31.
  Block adopt(void* address, std::size_t bytes, std::uint32_t number) {
    return stamped(address, bytes, number << 1 | (kIsVerified ? 1u : 0u));
  }

  /// Ends the process if the block does not hold its stamp.
  void check(const Block& block) const noexcept {
    if (!has_stamp(block)) [[unlikely]]
      report_corruption(block);
  }

  /// Returns what operation() returns; a timed probe records its duration.
  template <typename Operation>
  decltype(auto) time(LatencyKind kind, Operation&& operation) {
    if constexpr (!kIsTimed) {
      return operation();
    } else {
      Lap lap{worker_.latencies[kind]};
      return operation();
    }
  }

  Worker& worker() noexcept { return worker_; }

 private:
  Block stamped(void* address, std::size_t bytes, std::uint32_t stamp) {
    if (address == nullptr) {
      ++worker_.failed_allocations;
      return {};
    }
    ++worker_.allocations;
    Block block{static_cast<std::byte*>(address), static_cast<std::uint32_t>(bytes), stamp};
    write_stamp(block);
    return block;
  }

  struct Lap {
    Latencies& latencies;
    std::uint64_t started = Stopwatch::start();
    ~Lap() { latencies.record(Stopwatch::picoseconds(Stopwatch::stop() - started)); }
  };

  Worker& worker_;
};

}  // namespace strata::cell
