#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

/// Decompresses; accepts several gzip files in a row.
/// \errors  DamagedProfile if the data is truncated, damaged, or larger than any profile.
std::string gunzip(std::string_view bytes);

}  // namespace strata::cli
