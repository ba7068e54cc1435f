#pragma once

#include <stdexcept>

namespace strata::cli {

/// A mistake of the user: one sentence that names it and says what to do. main() prints it with a
/// hint at the usage and exits with `status`.
class UsageError : public std::runtime_error {
 public:
  /// 2 means bad input; `strata run` uses the shell's 126 (found, not executable) and 127 (not
  /// found).
  explicit UsageError(const std::string& sentence, int status = 2)
      : std::runtime_error(sentence), status_(status) {}

  int status() const noexcept { return status_; }

 private:
  int status_;
};

}  // namespace strata::cli
