#pragma once

#include <atomic>
#include <cstdint>

namespace strata::cell {

/// Where a cell stands, in a page that it shares with `strata`, so that showing it costs the load a
/// store and no system call. At kReady, kLoaded and kAfter the cell rests until `strata` has
/// looked.
enum class Phase : std::uint32_t {
  kStarting,  ///< reads options, draws operations
  kReady,     ///< rests
  kLoad,
  kLoaded,  ///< rests, the load's blocks alive
  kFreeing,
  kAfter,  ///< rests, everything freed
  kReporting,
};

/// Zero bytes are a board on which nothing happened yet.
struct Board {
  std::atomic<std::int32_t> process;  ///< the cell's; before `phase`
  std::atomic<Phase> phase;           ///< by the cell: release, with what was done before it
  std::atomic<Phase> seen;            ///< by `strata`: the resting phase that may end
  /// Resident bytes of the harness's tables, to be subtracted; relaxed, exact where the cell rests.
  std::atomic<std::uint64_t> table_bytes;
  /// Bytes asked for that live, for loads that tell it; relaxed, in steps of some KiB a thread.
  std::atomic<std::uint64_t> live_bytes;
};
static_assert(std::atomic<Phase>::is_always_lock_free &&
                  std::atomic<std::uint64_t>::is_always_lock_free,
              "it is shared by two processes");

}  // namespace strata::cell
