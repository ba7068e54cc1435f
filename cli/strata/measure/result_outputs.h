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

/// The outputs of a measurement: --json, --csv, and a table for people.
class ResultOutputs {
 public:
  /// A missing path means that the option was not given.
  /// \errors  Those of WholeFile; UsageError if both options name the same place.
  ResultOutputs(const std::optional<std::string>& json_path,
                const std::optional<std::string>& csv_path,
                const std::vector<std::string>& inputs = {});

  /// Writes the files, then calls show(stream) with the stream for people. In this order, because a
  /// reader that closes the pipe after the table ends this process. If one file cannot be written,
  /// the rest still is.
  /// \errors  The first write error, after everything else is done.
  void publish(const Results& results, const std::function<void(std::FILE*)>& show);

  /// Reports on standard error which files were overwritten.
  void tell_replaced() const;

 private:
  std::unique_ptr<WholeFile> json_;
  std::unique_ptr<WholeFile> csv_;
};

}  // namespace strata::cli
