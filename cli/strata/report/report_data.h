#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "measure/results.h"

namespace strata::cli {

/// Where rows come from, for people.
struct ReportFile {
  std::string name;
  std::string strata;    ///< version that measured
  std::string measured;  ///< when
  nlohmann::ordered_json machine;
};

/// What a report is made of: the rows of all files, and which file each is from.
struct ReportData {
  std::vector<ReportFile> files;
  std::vector<Row> rows;
  std::vector<std::size_t> file_of;  ///< of each row

  /// Reads one more file's text; `name` is what sentences and the report call it.
  /// \errors  As read_results().
  void add(const std::string& name, std::string_view text);
};

}  // namespace strata::cli
