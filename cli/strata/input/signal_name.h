#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

/// Parses "USR2", "SIGUSR2" or a number as a signal that a program can handle and go on.
/// \errors  UsageError for an unknown signal, for those that no program can handle, and for those
///          of faults.
int parse_signal(std::string_view option, const std::string& text);

}  // namespace strata::cli
