#pragma once

#include <string>
#include <vector>

#include "process/environment.h"

namespace strata::cli {

/// Runs a small system program for its answer, for at most a few seconds.
/// \returns  Its standard output and error, in the order of writing; empty if it could not be
///           started. Ctrl-C meanwhile ends this process, too.
std::string ask_program(const std::string& program, std::vector<std::string> arguments,
                        Environment environment);

}  // namespace strata::cli
