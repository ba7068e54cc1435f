#pragma once

#include <string>
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
  /// A part of a section: text and groups of plots.
  struct Part {
    std::string heading;
    std::string about;
    std::string before;  ///< HTML above the plots
    std::vector<PlotGroup> groups;
    std::string after;  ///< HTML below the plots
    bool folds = false;
    bool is_open = true;
  };
  struct Chapter {
    std::string id;
    std::string title;
    std::string about;
    std::vector<Part> parts;
  };

  void add_scenario(const std::string& scenario);
  /// Plots of the sweeps, and the table of how the scenario scales.
  Part sweeps_of(const std::string& scenario) const;
  /// Lists which contender failed where, for loads too numerous to plot.
  Part failures_of(const std::vector<const Cell*>& cells) const;
  std::string lead() const;

  Arrangement all_;
  std::vector<Chapter> chapters_;
};

}  // namespace strata::cli
