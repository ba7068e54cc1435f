#pragma once

#include <functional>

#include "process/run_process.h"

namespace strata::cli {

/// How it ended, without what it used: kExited or kKilled; kNotStarted only at_end sees.
struct BesideResult : ProcessResult {
  int process = 0;
};

/// Runs a program as `strata run` does, with our input, output, terminal and process group, but
/// stays beside it until it ends. Signals that others send to us go on to it; those of the terminal
/// reach both of us anyway and end only the program.
/// \param at_end    called with the result while signals are still held back
/// \param at_start  called once the program has started
/// \param signal    goes on, too, beside those that usually mean a program; 0: none
/// \errors          UsageError with the shell's status if it cannot be started
BesideResult run_beside(const ProcessPlan& plan,
                        const std::function<void(const BesideResult&)>& at_end = {},
                        const std::function<void()>& at_start = {}, int signal = 0);

}  // namespace strata::cli
