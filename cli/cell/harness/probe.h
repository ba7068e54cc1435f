#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/stamp.h"
#include "harness/stopwatch.h"
#include "harness/worker.h"

namespace strata::cell {

/// How closely a batch is looked at. The loop of a scenario is compiled once for each, so that a
/// plain batch has no trace of the others.
enum class Depth {
  kPlain,     ///< stamped at both ends: what throughput is measured with
  kTimed,     ///< the same, and every operation timed
  kVerified,  ///< every byte of every block written and checked; no number is taken
};

/// Ends the process: the block's bytes are not those that its owner wrote.
[[noreturn]] void report_corruption(const Block& block) noexcept;

/// What a scenario allocates through: counts, stamps, checks, and times what is to be timed.
///
/// A Memory has  void* allocate(std::size_t bytes)  and  void deallocate(void* p, std::size_t
/// bytes),  where nullptr says no.
/// \threads  One; each has its own over its own worker.
template <Depth kDepth>
class Probe {
 public:
  static constexpr Depth kLevel = kDepth;
  static constexpr bool kIsTimed = kDepth == Depth::kTimed;
  static constexpr bool kIsVerified = kDepth == Depth::kVerified;

  explicit Probe(Worker& worker) noexcept : worker_(worker) {}

  /// \returns  A stamped block, false if the contender has none; that is counted and makes the cell
  ///           a failed one, but the load goes on without this block.
  template <typename Memory>
  Block allocate(Memory& memory, std::size_t bytes) {
    void* address = time(kAlloc, [&] { return memory.allocate(bytes); });
    return adopt(address, bytes);
  }

  /// Checks the block and frees it, from any thread; then it is false. A false one is ignored.
  template <typename Memory>
  void deallocate(Memory& memory, Block& block) {
    if (!block) return;
    check(block);
    ++worker_.frees;
    time(kFree, [&] { memory.deallocate(block.address, block.bytes); });
    block = Block();
  }

  /// Counts and stamps what was allocated in another way, nullptr included.
  Block adopt(void* address, std::size_t bytes) {
    return stamped(address, bytes, worker_.next_stamp(kIsVerified));
  }

  /// The same with a number of the scenario's, from which it can compute the stamp again; two
  /// living blocks should not have the same.
  /// \pre  number < 2^31.
  Block adopt(void* address, std::size_t bytes, std::uint32_t number) {
    return stamped(address, bytes, number << 1 | (kIsVerified ? 1u : 0u));
  }

  /// Ends the process if the block is not as its owner left it.
  void check(const Block& block) const noexcept {
    if (!has_stamp(block)) [[unlikely]]
      report_corruption(block);
  }

  /// What operation() returns; a timed probe records how long it took.
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
