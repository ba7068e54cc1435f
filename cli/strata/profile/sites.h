#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace strata::cli {

/// A line of the program that allocates, or calls what does.
struct SiteSums {
  Line line;
  std::int64_t flat = 0;        ///< allocated right there, library code inside it included
  std::int64_t cumulative = 0;  ///< there and in what it calls; once for each stack
};

/// Sites by what the profile counts as `kind`, the largest share first; `older`, if any,
/// subtracted. Flat goes to the innermost frame that is not of the standard library: that a vector
/// allocates is no news, which one is.
std::vector<SiteSums> sum_sites(const Profile& profile, std::size_t kind, const Profile* older,
                                std::size_t older_kind);

/// A whole stack with all that was allocated there.
struct StackSums {
  std::vector<Line> lines;  ///< innermost first
  std::int64_t bytes = 0;
  std::int64_t objects = 0;
};

/// What is live, by stack, the largest first.
/// \errors  UsageError if the profile is not of a heap.
std::vector<StackSums> live_stacks(const Profile& profile);

/// Whether people skip this function when they ask who allocated: operator new, std::, what starts
/// main().
bool is_library_function(std::string_view name);

/// "12 bytes", "1.5 MiB", "3" (of objects); with a sign if `is_growth`.
std::string amount(std::int64_t value, const std::string& unit, bool is_growth = false);

/// The report of `strata run --leaks`: totals, then the largest stacks, one frame a line.
std::string leak_report(const Profile& profile, const std::string& process, std::size_t most);

}  // namespace strata::cli
