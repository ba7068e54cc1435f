#pragma once

#include <cstddef>
#include <string>

namespace strata::cli {

/// Where a measured command's standard output and error go: a file without a name, so that writing
/// costs the command what `> file` costs, and the last words are there when it fails.
class OutputCapture {
 public:
  /// \errors  As of temporary_name(); std::system_error if no file can be made there, or written.
  OutputCapture();
  ~OutputCapture();
  OutputCapture(const OutputCapture&) = delete;
  OutputCapture& operator=(const OutputCapture&) = delete;

  int fd() const noexcept { return fd_; }

  /// Forgets what was written.
  void clear();

  /// So many show what a command had to say before it failed.
  static constexpr std::size_t kLastLines = 5;
  /// The last lines, at most `bytes` bytes of them; never half a line unless there is only one.
  std::string tail(std::size_t lines, std::size_t bytes = 4096) const;

  /// All of it, up to `bytes` bytes.
  std::string head(std::size_t bytes = 1 << 20) const;

 private:
  int fd_ = -1;
};

}  // namespace strata::cli
