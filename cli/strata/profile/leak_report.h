#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace strata::cli {

/// A whole stack and the sum of its allocations.
struct StackSums {
  std::vector<Line> lines;  ///< innermost first
  std::int64_t bytes = 0;
  std::int64_t objects = 0;
};

/// What is live, by stack, largest first.
/// \errors  UsageError if the profile is not a heap profile.
std::vector<StackSums> live_stacks(const Profile& profile);

/// The report of `strata run --leaks`: totals, then the largest stacks, one frame per line.
std::string leak_report(const Profile& profile, const std::string& process, std::size_t most);

}  // namespace strata::cli
