#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::cli {

/// A table of numbers as fields that are the darker, the larger: a drawing that needs no script.
struct HeatMap {
  struct Field {
    std::uint64_t count;
    std::string tip;  ///< shown where a pointer rests
  };
  struct Row {
    std::string name;
    std::vector<Field> fields = {};  ///< one for each column
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
  bool is_by_row = false;  ///< dark is the largest of the row, not of all
  std::string alt;

  std::string to_svg() const;
};

}  // namespace strata::cli
