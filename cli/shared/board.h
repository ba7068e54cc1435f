#pragma once

#include <atomic>
#include <cstdint>

namespace strata::cell {

/// The progress of a cell, which rests at kReady, kLoaded and kAfter until `strata` has sampled it.
enum class Phase : std::uint32_t {
  kStarting,  ///< reads options, draws operations
  kReady,     ///< rests
  kLoad,
  kLoaded,  ///< rests, the load's blocks alive
  kFreeing,
  kAfter,  ///< rests, everything freed
  kReporting,
};

/// The page that a cell shares with `strata`: a cell shows its phase by a store, without a system
/// call. A zeroed page is a valid board on which nothing has happened.
struct Board {
  std::atomic<std::int32_t> process;  ///< the cell's process; set before `phase`
  std::atomic<Phase> phase;           ///< by the cell; release: publishes what it did before
  std::atomic<Phase> seen;            ///< by `strata`: the resting phase that may end
  /// Resident bytes of the harness's tables, to be subtracted. Relaxed; exact while the cell rests.
  std::atomic<std::uint64_t> table_bytes;
  /// Requested bytes that are live, if the load reports them. Relaxed; each thread updates it in
  /// steps of some KiB.
  std::atomic<std::uint64_t> live_bytes;
};
static_assert(std::atomic<Phase>::is_always_lock_free &&
                  std::atomic<std::uint64_t>::is_always_lock_free,
              "it is shared by two processes");

}  // namespace strata::cell
