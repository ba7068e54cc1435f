#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

/// Whether the bytes begin like a gzip file.
bool is_gzip(std::string_view bytes);

/// Decompresses; accepts several gzip files in a row.
/// \errors  DamagedProfile if the data is truncated, damaged, or larger than any profile.
std::string gunzip(std::string_view bytes);

}  // namespace strata::cli
