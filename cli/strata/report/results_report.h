#pragma once

#include <string>
#include <vector>

#include "report/cells.h"
#include "report/gnuplot.h"
#include "report/page.h"
#include "report/plots.h"

namespace strata::cli {

/// The report of measured results: an overview, a section for each scenario, one table of
/// everything, and the machine.
class ResultsReport {
 public:
  /// \errors  UsageError if there are no rows.
  explicit ResultsReport(ReportData data);

  /// All plots, in the order of the page.
  std::vector<Plot> plots() const;
  std::vector<SeriesStyle> styles() const { return all_.styles(); }

  /// "churn, larson: allocators compared".
  std::string default_title() const;

  /// The page around the drawings of plots().
  Page page(const std::string& title, const Drawings& drawings) const;

 private:
  /// A part of a section: words, and groups of plots below them.
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
  /// What varied, as plots, and how it scales.
  Part sweeps_of(const std::string& scenario) const;
  /// Which contender failed where, for loads that are too many to be drawn.
  Part failures_of(const std::vector<const Cell*>& cells) const;
  std::string lead() const;

  Arrangement all_;
  std::vector<Chapter> chapters_;
};

}  // namespace strata::cli
