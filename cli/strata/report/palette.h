#pragma once

#include <string>

#include "report/plot.h"

namespace strata::cli {

/// The colours of one appearance, as #rrggbb.
struct Palette {
  const char* paper;  ///< behind everything
  const char* card;   ///< behind a plot
  const char* ink;    ///< words
  const char* muted;  ///< less important words
  const char* grid;   ///< lines behind the marks
  const char* series[SeriesStyle::kColours];
};

/// The series' colours are those of Okabe and Ito, which stay apart for every kind of colour
/// blindness, then some of Tol's; a grey comes first, for what the others are compared with.
/// \source  M. Okabe, K. Ito, Color Universal Design, 2008; P. Tol, Colour Schemes, 2021.
extern const Palette kLightPalette;
extern const Palette kDarkPalette;

/// The number of a series' colour, mixed with ink until words in it can be read.
std::string text_colour(const Palette& palette, int colour);

/// `--ink:#1a1c20;--s0:…;--t0:…`: the palette as the variables that the drawings refer to.
std::string css_variables(const Palette& palette);

}  // namespace strata::cli
