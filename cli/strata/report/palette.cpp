#include "report/palette.h"

#include <fmt/format.h>

#include <cstdlib>

namespace strata::cli {

const Palette kLightPalette = {
    "#f6f7f9",
    "#ffffff",
    "#1b1e24",
    "#5a6270",
    "#e3e6eb",
    {"#6b7280", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#882255",
     "#8a8f1f", "#5b4bb7", "#7a4b2a", "#00676f", "#b5179e", "#6aa84f", "#9aa7d6"}};
const Palette kDarkPalette = {
    "#111418",
    "#1a1e24",
    "#e9ecf1",
    "#a0a9b6",
    "#2e343d",
    {"#a3acba", "#ff8533", "#4aa8e8", "#2fcf9f", "#e59cc5", "#86cdfa", "#f5bd3a", "#d1699d",
     "#c3c94f", "#a99cf5", "#c79772", "#3fb5c0", "#f06be0", "#93d37a", "#c2cdf5"}};

namespace {

int channel(const char* colour, int index) {
  char digits[3] = {colour[1 + 2 * index], colour[2 + 2 * index], '\0'};
  return static_cast<int>(std::strtol(digits, nullptr, 16));
}

}  // namespace

std::string text_colour(const Palette& palette, int colour) {
  std::string mixed = "#";
  for (int i = 0; i < 3; ++i) {
    int value = (6 * channel(palette.series[colour], i) + 4 * channel(palette.ink, i)) / 10;
    mixed += fmt::format("{:02x}", value);
  }
  return mixed;
}

std::string css_variables(const Palette& palette) {
  std::string css =
      fmt::format("--paper:{};--card:{};--ink:{};--muted:{};--grid:{};", palette.paper,
                  palette.card, palette.ink, palette.muted, palette.grid);
  for (int i = 0; i < SeriesStyle::kColours; ++i) {
    css += fmt::format("--s{}:{};--t{}:{};", i, palette.series[i], i, text_colour(palette, i));
  }
  return css;
}

}  // namespace strata::cli
