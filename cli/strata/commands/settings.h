#pragma once

#include <string>
#include <vector>

#include "contenders/contender.h"
#include "process/environment.h"

namespace strata::cli {

/// Parses the words of --set: "checks=full" is STRATA_CHECKS.
/// \errors  UsageError for one that is no setting.
Settings parse_settings(const std::vector<std::string>& words);

/// Asks this libstrata.so, in a separate process, whether it understands the settings of `option`.
/// \errors  UsageError, which names the first setting that it does not understand.
void check_settings(const char* option, const Settings& settings, const std::string& library);

/// Checks settings for a program among whose allocators is no Strata: it may have Strata linked in.
/// \errors  UsageError if it has not, and for a setting that its library does not understand.
void check_settings_of_program(const Settings& settings, const std::string& program);

/// Replaces each contender that is Strata's by one for every value of --vary: "cache_bytes=1m,32m"
/// makes "strata cache_bytes=1m" and "strata cache_bytes=32m".
/// \errors  UsageError for a word that is no setting, a value given twice or not printable, and an
///          option that the contender has already.
void vary(std::vector<Contender>& contenders, const std::string& word);

/// The environment's settings for this libstrata.so, except those that `replacing` overrides.
/// Leaves unknown names to the library, which warns about them in the output of each run.
/// \errors  UsageError, which names the first value that it does not understand.
Settings settings_of_environment(const std::string& library, const Settings& replacing);

}  // namespace strata::cli
