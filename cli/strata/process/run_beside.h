#pragma once

#include <functional>

#include "process/run_process.h"

namespace strata::cli {

/// Runs a program as `strata run` does, with our input, output, terminal and process group, but
/// remains its parent until it ends. Forwards signals that others send to us. The terminal's
/// signals reach both processes anyway and end only the program.
/// \param at_end    called with the result, perhaps kNotStarted, while signals are blocked
/// \param at_start  called once the program has started
/// \param signal    forwarded in addition to the usual ones; 0: none
/// \returns         kExited or kKilled, without resource usage
/// \errors          UsageError with the shell's status if it cannot be started
ProcessResult run_beside(const ProcessPlan& plan,
                         const std::function<void(const ProcessResult&)>& at_end = {},
                         const std::function<void()>& at_start = {}, int signal = 0);

}  // namespace strata::cli
