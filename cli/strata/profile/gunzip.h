#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

/// Whether the bytes begin as a gzip file does.
bool is_gzip(std::string_view bytes);

/// What was compressed; several gzip files in a row count as one.
/// \errors  DamagedProfile if it is cut short, damaged, or larger than any profile is.
std::string gunzip(std::string_view bytes);

}  // namespace strata::cli
