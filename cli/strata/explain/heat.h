#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::cli {

/// A table of numbers as cells that are darker for larger numbers; needs no script.
struct HeatMap {
  struct Field {
    std::uint64_t count;
    std::string tip;  ///< the tooltip
  };
  struct Row {
    std::string name;
    std::vector<Field> fields = {};  ///< one per column
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
  bool is_by_row = false;  ///< whether each row has its own scale
  std::string alt;

  std::string to_svg() const;
};

}  // namespace strata::cli
