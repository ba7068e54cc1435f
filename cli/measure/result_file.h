#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

/// A file that results will be written to: opened when the command line is read, so that an hour of
/// measuring never ends in "permission denied".
class ResultFile {
 public:
  /// "-" is standard output. \errors UsageError naming the option, the file and the reason.
  ResultFile(std::string_view option, const std::string& path);
  ~ResultFile();  ///< a file that it created and nobody wrote to is removed again
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  bool is_standard_output() const noexcept { return path_ == "-"; }

  /// Replaces the contents. \errors std::system_error naming the file.
  void write(std::string_view text);

 private:
  std::string path_;
  int fd_ = -1;
  bool is_new_ = false;
};

}  // namespace strata::cli
