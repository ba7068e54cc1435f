#pragma once

#include <string>

namespace strata::cli {

/// Reads a file that the user named.
/// \errors  UsageError, which names the file and the reason.
std::string read_file(const std::string& path);

/// Refuses a pipe as input that is read more than once.
/// \errors  UsageError, which names it.
void refuse_pipe(const std::string& path);

}  // namespace strata::cli
