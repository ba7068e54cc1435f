#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "measure/results.h"
#include "output/whole_file.h"

namespace strata::cli {

/// Where a measurement goes: --json, --csv, and a table for people.
class ResultOutputs {
 public:
  /// No path: the option was not given.
  /// \errors  UsageError as of WholeFile, and for one place that is to hold both.
  ResultOutputs(const std::optional<std::string>& json_path,
                const std::optional<std::string>& csv_path,
                const std::vector<std::string>& inputs = {});

  /// Writes the files, then calls show(stream) with the stream that people read. In this order: a
  /// reader that closes the pipe after the table ends us. A file that cannot be written keeps
  /// nothing else from being written.
  /// \errors  The first that writing met, when all the rest is done.
  void publish(const Results& results, const std::function<void(std::FILE*)>& show);

  /// Names the files whose earlier contents are gone, on standard error.
  void tell_replaced() const;

 private:
  std::unique_ptr<WholeFile> json_;
  std::unique_ptr<WholeFile> csv_;
};

}  // namespace strata::cli
