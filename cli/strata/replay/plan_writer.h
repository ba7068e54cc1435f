#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace strata::cli {

/// What is done about objects that take the place of smaller ones.
enum class Growth {
  kIgnored,   ///< the calls are made, as all are
  kMoved,     ///< and the bytes moved over, as the program does
  kReserved,  ///< what they grow to is allocated at once
};

/// What of a trace is to be replayed, and how.
struct PlanOptions {
  bool keeps_times = false;          ///< for the pace of the recording
  std::uint64_t until_event = 0;     ///< ends after this event; 0: goes to the end
  std::vector<bool> routed = {};     ///< by stack: whose objects are not malloc's; empty: of none
  Growth growth = Growth::kIgnored;  ///< of those objects, which are malloc's then
};

/// A trace that is ready to be replayed, and what its plan will do.
struct Planned {
  std::string trace;  ///< the file, as people named it
  std::string plan;   ///< the file that was written
  std::uint64_t calls = 0;
  std::uint64_t threads = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t dropped_events = 0;
  std::uint64_t duration_ns = 0;
  bool is_cut = false;
};

/// Called now and then with what was done of a whole, 0 to 1.
using Advance = std::function<void(double share)>;
/// After so many events it is called again.
inline constexpr std::uint64_t kAdvanceEvents = 1 << 20;

/// Reads a trace twice and writes what strata-cell replays (shared/replay_plan.h).
///
/// What is not in a plan: calls that failed; the end of objects that were there before the
/// recording; a realloc of one is an allocation. An object whose end was not recorded is freed
/// where its address was handed out again.
/// \errors  trace::TraceError; std::system_error for a file that cannot be written; UsageError for
///          a trace that is beyond what can be replayed.
Planned write_plan(const std::string& trace, const std::string& path, const PlanOptions& options,
                   const Advance& advance);

}  // namespace strata::cli
