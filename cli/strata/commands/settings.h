#pragma once

#include <string>
#include <utility>
#include <vector>

namespace strata::cli {

/// What --set asks for: names and values of variables, as parse_setting() gives them.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Asks this libstrata.so, in a process of its own, whether it understands the settings.
/// \errors  UsageError that names the first setting that it does not know or understand.
void check_settings(const Settings& settings, const std::string& library);

/// What our environment sets of this libstrata.so, and `replacing` does not set instead. Names that
/// are no options are left to the library, which warns of them in the output of each run.
/// \errors  UsageError that names the first value that it does not understand.
Settings settings_of_environment(const std::string& library, const Settings& replacing);

}  // namespace strata::cli
