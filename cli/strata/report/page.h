#pragma once

#include <string>
#include <vector>

#include "report/cells.h"
#include "report/plot.h"

/// \file  Assembles a self-contained page: style, script and drawings are embedded.

namespace strata::cli {

/// A part of the page, listed in the table of contents. Each kind of report makes its own.
struct Section {
  std::string id;
  std::string title;     ///< plain text
  std::string subtitle;  ///< plain text, may be empty
  std::string html;
};

struct Page {
  std::string title;
  std::string lead;  ///< HTML below the title
  std::vector<Series> legend;
  std::string shapes;  ///< shapes that the drawings share
  std::vector<Section> sections;
  std::string style;   ///< CSS only for this kind of page
  std::string script;  ///< script only for this kind of page

  std::string to_html() const;
};

/// Wraps a plot with its title and note as a card of the page.
std::string figure(const Plot& plot, const std::string& svg);

}  // namespace strata::cli
