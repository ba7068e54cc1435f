#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace strata::cli {

/// How objects that replace smaller ones are replayed.
enum class Growth {
  kIgnored,   ///< by their calls, like all others
  kMoved,     ///< likewise, and the bytes are copied, as the program does
  kReserved,  ///< the final size is allocated at once
};

/// Which part of a trace to replay, and how.
struct PlanOptions {
  bool keeps_times = false;       ///< to replay at the recorded pace
  std::uint64_t until_event = 0;  ///< the last event; 0: the trace's end
  /// by stack: whose objects are routed to malloc's replacement; empty: none
  std::vector<bool> routed = {};
  Growth growth = Growth::kIgnored;  ///< for these objects, which then stay with malloc

  bool is_routed(std::uint32_t stack) const { return stack < routed.size() && routed[stack]; }
};

/// A plan ready for replay, and a summary of it.
struct Planned {
  std::string trace;  ///< the file, as the user named it
  std::string plan;   ///< the plan's file
  std::uint64_t calls = 0;
  std::uint64_t threads = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t dropped_events = 0;
  std::uint64_t duration_ns = 0;
  bool is_cut = false;
};

/// Called repeatedly with the share done so far, 0 to 1.
using Advance = std::function<void(double share)>;

/// Reads a trace twice and writes the plan that strata-cell replays (shared/replay_plan.h).
///
/// A plan omits failed calls and the ends of objects from before the recording; a realloc of such
/// an object becomes an allocation. An object whose end was not recorded is freed where its address
/// is allocated again.
/// \errors  trace::TraceError; std::system_error if the file cannot be written; UsageError for a
///          trace that exceeds the limits of replay.
Planned write_plan(const std::string& trace, const std::string& path, const PlanOptions& options,
                   const Advance& advance);

}  // namespace strata::cli
