#pragma once

#include <functional>

#include "process/run_process.h"

namespace strata::cli {

/// How it ended: kExited or kKilled; only at_end sees kNotStarted. Has no resource usage.
struct BesideResult : ProcessResult {
  int process = 0;
};

/// Runs a program as `strata run` does, with our input, output, terminal and process group, but
/// remains its parent until it ends. Forwards signals that others send to us. The terminal's
/// signals reach both processes anyway and end only the program.
/// \param at_end    called with the result while signals are still blocked
/// \param at_start  called once the program has started
/// \param signal    forwarded in addition to the usual ones; 0: none
/// \errors          UsageError with the shell's status if it cannot be started
BesideResult run_beside(const ProcessPlan& plan,
                        const std::function<void(const BesideResult&)>& at_end = {},
                        const std::function<void()>& at_start = {}, int signal = 0);

}  // namespace strata::cli
