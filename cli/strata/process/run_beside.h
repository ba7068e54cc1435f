#pragma once

#include "process/run_process.h"

namespace strata::cli {

/// Runs a program as `strata run` does, with our input, output, terminal and process group, but
/// stays beside it until it ends. Signals that others send to us go on to it; those of the terminal
/// reach both of us anyway and end only the program.
/// \returns  How it ended (kExited, kKilled or kNotStarted) and its process.
struct BesideResult {
  ProcessResult::End end = ProcessResult::End::kNotStarted;
  int code = 0;  ///< as in ProcessResult
  int process = 0;
};
BesideResult run_beside(const ProcessPlan& plan);

}  // namespace strata::cli
