#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "measure/results.h"

namespace strata::cli {

/// A file that results will be written to: opened when the command line is read, so that an hour of
/// measuring never ends in "permission denied".
class ResultFile {
 public:
  /// "-" is standard output.
  /// \errors  UsageError naming the option, the file and the reason.
  ResultFile(std::string_view option, const std::string& path);
  ~ResultFile();  ///< removes a file that it created if nothing was written to it
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  bool is_standard_output() const noexcept { return path_ == "-"; }
  /// Whether both would write into one file, by whatever paths.
  bool is_same_as(const ResultFile& other) const;

  /// Whether write() replaced something.
  bool has_replaced() const noexcept { return has_replaced_; }
  const std::string& path() const noexcept { return path_; }

  /// Replaces the contents.
  /// \errors  std::system_error naming the file.
  void write(std::string_view text);

 private:
  std::string path_;
  int fd_ = -1;
  bool is_new_ = false;
  bool has_replaced_ = false;
};

/// Where a measurement goes: --json, --csv, and a table for people.
class ResultOutputs {
 public:
  /// No path: the option was not given.
  /// \errors  UsageError as of ResultFile, and for one place that is to hold both.
  ResultOutputs(const std::optional<std::string>& json_path,
                const std::optional<std::string>& csv_path);

  /// Writes the files, then calls show(stream) with the stream that people read. In this order: a
  /// reader that closes the pipe after the table ends us. A file that cannot be written keeps
  /// nothing else from being written.
  /// \errors  The first that writing met, when all the rest is done.
  void publish(const Results& results, const std::function<void(std::FILE*)>& show);

  /// Names the files whose earlier contents are gone, on standard error.
  void tell_replaced() const;

 private:
  std::unique_ptr<ResultFile> json_;
  std::unique_ptr<ResultFile> csv_;
};

}  // namespace strata::cli
