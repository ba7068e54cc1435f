#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/results.h"

namespace strata::cli {

/// The source of rows, for display.
struct ReportFile {
  std::string name;
  std::string strata;    ///< the version that measured
  std::string measured;  ///< when
  nlohmann::ordered_json machine;
};

/// The input of a report: the rows of all files, and which file each row comes from.
struct ReportData {
  std::vector<ReportFile> files;
  std::vector<Row> rows;
  std::vector<std::size_t> file_of;  ///< of each row

  /// Adds the text of a file; `name` is the file's name in messages and in the report.
  /// \errors  Those of read_results().
  void add(const std::string& name, std::string_view text);
};

}  // namespace strata::cli
