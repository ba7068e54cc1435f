#pragma once

#include <string>
#include <utility>
#include <vector>

namespace strata::cli {

/// The settings of --set: names and values of variables, from parse_setting().
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Asks this libstrata.so, in a separate process, whether it understands the settings.
/// \errors  UsageError, which names the first setting that it does not understand.
void check_settings(const Settings& settings, const std::string& library);

/// The environment's settings for this libstrata.so, except those that `replacing` overrides.
/// Leaves unknown names to the library, which warns about them in the output of each run.
/// \errors  UsageError, which names the first value that it does not understand.
Settings settings_of_environment(const std::string& library, const Settings& replacing);

}  // namespace strata::cli
