#pragma once

#include <string>

#include "report/plot.h"

namespace strata::cli {

/// The colours of a theme, as #rrggbb.
struct Palette {
  const char* paper;  ///< behind everything
  const char* card;   ///< behind a plot
  const char* ink;    ///< text
  const char* muted;  ///< secondary text
  const char* grid;   ///< lines behind the marks
  const char* series[SeriesStyle::kColours];
};

/// The series' colours: grey for the baseline, then those of Okabe and Ito, which all kinds of
/// colour blindness can tell apart, then some of Tol's.
/// \source  M. Okabe, K. Ito, Color Universal Design, 2008; P. Tol, Colour Schemes, 2021.
extern const Palette kLightPalette;
extern const Palette kDarkPalette;

/// A series' colour, by number, mixed with ink until text in it is readable.
std::string text_colour(const Palette& palette, int colour);

/// The palette as the CSS variables that drawings use: `--ink:#1a1c20;--s0:…;--t0:…`.
std::string css_variables(const Palette& palette);

}  // namespace strata::cli
