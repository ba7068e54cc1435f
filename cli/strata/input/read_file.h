#pragma once

#include <string>

namespace strata::cli {

/// The contents of a file that a person named.
/// \errors  UsageError naming it and the reason.
std::string read_file(const std::string& path);

/// For what is read more than once.
/// \errors  UsageError for a pipe, naming it.
void refuse_pipe(const std::string& path);

}  // namespace strata::cli
