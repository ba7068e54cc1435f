#pragma once

#include <string>

#include "process/run_process.h"

namespace strata::cli {

/// Runs the command with every allocation recorded and waits for it. Then reports on standard error
/// what the command, and every program that it started, still had live at exit: functions, files
/// and lines.
/// \param profile  where to keep the command's own profile; empty: nowhere
/// \returns  The command's exit status; if a signal killed it, dies by the same signal.
/// \errors   UsageError with the shell's status if it cannot be started.
int run_for_leaks(ProcessPlan plan, const std::string& profile);

}  // namespace strata::cli
