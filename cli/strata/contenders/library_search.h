#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// The folders in which the dynamic linker of this process looks, with those of /etc/ld.so.conf.d.
std::vector<std::string> library_folders();

/// The newest version of a library: "libx.so" in one of the folders, or "libx.so.N…" with the
/// highest numbers in the first folder that has any.
/// \returns  Its path, or empty.
std::string find_library(std::string_view name, const std::vector<std::string>& folders);

/// Strata's own library, seen from this executable: ../lib/libstrata.so.N, or the machine's library
/// folder below ../lib, so that build and install trees work wherever they are.
/// \errors  UsageError naming the places looked at.
std::string find_strata();

}  // namespace strata::cli
