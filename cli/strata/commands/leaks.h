#pragma once

#include <string>

#include "process/run_process.h"

namespace strata::cli {

/// Runs the command with every allocation noted, waits for it, and tells on standard error what was
/// still live at exit, of it and of every program that it started: functions, files and lines.
/// \param profile  where the profile of the command itself is kept; empty: nowhere
/// \returns  Its exit status; dies by its signal if it died by one.
/// \errors   UsageError with the shell's status if it cannot be started.
int run_for_leaks(ProcessPlan plan, const std::string& profile);

}  // namespace strata::cli
