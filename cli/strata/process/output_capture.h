#pragma once

#include <cstddef>
#include <string>

namespace strata::cli {

/// Captures a measured command's standard output and error in an unnamed file. Writing costs the
/// command as much as `> file`, and its last lines are available if it fails.
class OutputCapture {
 public:
  /// \errors  Those of temporary_name(); std::system_error if the file cannot be created or
  ///          written.
  OutputCapture();
  ~OutputCapture();
  OutputCapture(const OutputCapture&) = delete;
  OutputCapture& operator=(const OutputCapture&) = delete;

  int fd() const noexcept { return fd_; }

  void clear();

  /// The number of lines to show of a command that failed.
  static constexpr std::size_t kLastLines = 5;
  /// The last lines, at most `bytes` bytes. Whole lines only, unless there is just one.
  std::string tail(std::size_t lines, std::size_t bytes = 4096) const;

  /// The whole output, up to `bytes` bytes.
  std::string head(std::size_t bytes = 1 << 20) const;

 private:
  int fd_ = -1;
};

}  // namespace strata::cli
