#pragma once

#include <string>
#include <vector>

#include "process/environment.h"

namespace strata::cli {

/// Runs a small program of the system for its answer, a few seconds at most.
/// \returns  What it wrote to standard output and error, in the order of writing; empty if it could
///           not be started. Ctrl-C meanwhile ends us, too.
std::string ask_program(const std::string& program, std::vector<std::string> arguments,
                        Environment environment);

}  // namespace strata::cli
