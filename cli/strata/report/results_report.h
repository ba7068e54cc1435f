#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/cells.h"
#include "report/gnuplot.h"
#include "report/page.h"
#include "report/plots.h"

namespace strata::cli {

/// The report of measured results: an overview, a section per scenario, a table of everything, and
/// the machine.
class ResultsReport {
 public:
  /// \errors  UsageError if there are no rows.
  explicit ResultsReport(ReportData data);

  /// All plots, in page order.
  std::vector<Plot> plots() const;
  std::vector<SeriesStyle> styles() const { return all_.styles(); }

  /// "churn, larson: allocators compared".
  std::string default_title() const;

  /// Makes the page with the drawings of plots().
  Page page(const std::string& title, const Drawings& drawings) const;

 private:
  /// A section in the making: its HTML up to the first plot, then each plot with the HTML after it.
  struct Chapter {
    Section section;
    std::vector<std::pair<Plot, std::string>> plots = {};

    void add(std::string_view html) {
      (plots.empty() ? section.html : plots.back().second) += html;
    }
    void add(const std::vector<PlotGroup>& groups);
  };

  void add_scenario(const std::string& scenario);
  /// Plots of the sweeps, and the table of how the scenario scales.
  void add_sweeps(Chapter& chapter) const;
  void add_cells(Chapter& chapter, const std::vector<const Cell*>& cells) const;
  /// Lists which contender failed where, for loads too numerous to plot.
  void add_failures(Chapter& chapter, const std::vector<const Cell*>& cells) const;
  std::string lead() const;

  Arrangement all_;
  std::vector<Chapter> chapters_;
};

}  // namespace strata::cli
