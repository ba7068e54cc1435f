#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace strata::cli {

/// A line of the program that allocates, or calls what allocates.
struct SiteSums {
  Line line;
  std::int64_t flat = 0;  ///< allocated by this line, including library code that it calls
  /// also by the program's code that it calls; counted once per stack
  std::int64_t cumulative = 0;
};

/// Sums what the profile counts as `kind` by site, largest share first; subtracts `older`, if any.
/// `flat` is charged to the innermost frame outside the standard library: it matters which vector
/// allocates, not that a vector does.
std::vector<SiteSums> sum_sites(const Profile& profile, std::size_t kind, const Profile* older,
                                std::size_t older_kind);

/// Whether to skip this function when looking for the allocating code: operator new, std::,
/// whatever calls main().
bool is_library_function(std::string_view name);

/// "12 B", "1.5 MiB", "3" (objects); signed if `is_growth`.
std::string amount(std::int64_t value, const std::string& unit, bool is_growth = false);

}  // namespace strata::cli
