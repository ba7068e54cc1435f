#pragma once

#include <string>
#include <utility>
#include <vector>

namespace strata::cli {

/// What --set asks for: names and values of variables, as parse_setting() gives them.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// Asks this libstrata.so, in a process of its own, whether it understands the settings. A library
/// that lists no options is asked for nothing.
/// \errors  UsageError that names the first setting that it does not know or understand.
void check_settings(const Settings& settings, const std::string& library);

}  // namespace strata::cli
