#pragma once

#include <string>
#include <vector>

namespace strata::cli {

/// A table of numbers as fields that are the darker, the larger: a drawing that needs no script.
struct HeatMap {
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<double>> values;     ///< by row, then column
  std::vector<std::vector<std::string>> tips;  ///< shown where a pointer rests; may be empty
  bool is_by_row = false;                      ///< dark is the largest of the row, not of all
  std::string alt;

  std::string to_svg() const;
};

}  // namespace strata::cli
