#pragma once

#include <functional>

#include "process/run_process.h"

namespace strata::cli {

/// What to do meanwhile; each may be empty.
struct RunMoments {
  std::function<void()> before_start;  ///< signals are blocked
  std::function<void()> after_start;   ///< the program has started
  /// The result is perhaps kNotStarted; signals are still blocked.
  std::function<void(const ProcessResult&)> at_end;
};

/// Runs a program as `strata run` does, with our input, output, terminal and process group, but
/// remains its parent until it ends. Forwards signals that others send to us. The terminal's
/// signals reach both processes anyway and end only the program.
/// \param signal  forwarded in addition to the usual ones; 0: none
/// \returns       kExited or kKilled, without resource usage
/// \errors        UsageError with the shell's status if it cannot be started
ProcessResult run_beside(const ProcessPlan& plan, const RunMoments& moments, int signal = 0);

}  // namespace strata::cli
