#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// The folders that the dynamic linker of this process searches, including those of
/// /etc/ld.so.conf.d.
std::vector<std::string> library_folders();

/// Finds the newest version of a library: "libx.so" in one of the folders, or "libx.so.N…" with the
/// highest numbers in the first folder that has any.
/// \returns  Its path, or empty.
std::string find_library(std::string_view name, const std::vector<std::string>& folders);

/// Finds Strata's library relative to this executable: ../lib/libstrata.so.N, or in the machine's
/// library folder below ../lib. So build and install trees can be moved.
/// \errors  UsageError, which names the places searched, and those of own_path().
std::string find_strata();

}  // namespace strata::cli
