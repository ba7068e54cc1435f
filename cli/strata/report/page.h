#pragma once

#include <string>
#include <vector>

#include "report/cells.h"
#include "report/plot.h"

/// \file  From parts to one page without any network: style, script and drawings are in it.

namespace strata::cli {

/// A part of the page with a place in its table of contents. Every kind of input makes its own.
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
  std::string shapes;  ///< what the drawings share
  std::vector<Section> sections;
  std::string style;   ///< CSS that only this kind of page needs
  std::string script;  ///< and what it does beyond the others

  std::string to_html() const;
};

/// A plot with its title and note around it, as a card of the page.
std::string figure(const Plot& plot, const std::string& svg);

}  // namespace strata::cli
