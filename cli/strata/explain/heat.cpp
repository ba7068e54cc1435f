#include "explain/heat.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "output/text.h"
#include "report/html.h"

namespace strata::cli {
namespace {

constexpr int kFieldWidth = 40;
constexpr int kFieldHeight = 18;
constexpr double kCharacterWidth = 6.6;
constexpr int kFootHeight = 34;
constexpr int kRight = 12;  ///< room for half of a column's name
/// Lighter cells would look empty.
constexpr double kFaintest = 0.14;

double largest_of(const HeatMap::Row& row) {
  std::uint64_t largest = 0;
  for (const HeatMap::Field& field : row.fields) largest = std::max(largest, field.count);
  return static_cast<double>(largest);
}

}  // namespace

std::string HeatMap::to_svg() const {
  std::size_t longest = 0;
  double most = 0;
  for (const Row& row : rows) {
    longest = std::max(longest, display_width(row.name));
    most = std::max(most, largest_of(row));
  }
  const int left = static_cast<int>(static_cast<double>(longest) * kCharacterWidth) + 10;
  const int width = left + kFieldWidth * static_cast<int>(columns.size()) + kRight;
  const int height = kFieldHeight * static_cast<int>(rows.size()) + kFootHeight;
  std::string svg = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\"><svg class=\"heat\" viewBox=\"0 0 {} {}\" width=\"{}\" "
      "role=\"img\" "
      "aria-label=\"{}\">\n",
      width, height, width, html_escaped(alt));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const int y = kFieldHeight * static_cast<int>(r);
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 6,
                       y + kFieldHeight - 5, html_escaped(rows[r].name));
    const double scale = is_by_row ? largest_of(rows[r]) : most;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const Field& field = rows[r].fields[c];
      if (field.count == 0) continue;
      // Logarithmic, so that a thousandth of the maximum is visible.
      const double shade =
          std::max(kFaintest, 1 + std::log10(static_cast<double>(field.count) / scale) / 4);
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.2f}\">"
          "<title>{}</title></rect>\n",
          left + kFieldWidth * static_cast<int>(c), y, kFieldWidth - 1, kFieldHeight - 1,
          std::min(shade, 1.0), html_escaped(field.tip));
    }
  }
  for (std::size_t c = 0; c < columns.size(); c += 2) {
    svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       left + kFieldWidth * static_cast<int>(c) + kFieldWidth / 2, height - 14,
                       html_escaped(columns[c]));
  }
  return svg + "</svg></div>\n";
}

}  // namespace strata::cli
