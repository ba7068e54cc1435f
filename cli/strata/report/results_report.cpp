#include "report/results_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "input/usage_error.h"
#include "measure/machine.h"
#include "output/text.h"
#include "report/html.h"
#include "report/plots.h"
#include "report/results_tables.h"

namespace strata::cli {
namespace {

/// Up to this many cells of a scenario are expanded; with more, only one is.
constexpr std::size_t kOpenCells = 2;
/// With more loads than this, no load has its own plots: nobody would read them.
constexpr std::size_t kDrawnCells = 40;
/// With more sweeps than this, only those over the first varying parameter are drawn.
constexpr std::size_t kDrawnSweeps = 12;
constexpr std::size_t kTitledScenarios = 3;

std::string about(std::string_view text) {
  return text.empty() ? "" : fmt::format("<p class=\"about\">{}</p>\n", html_escaped(text));
}

}  // namespace

void ResultsReport::Chapter::add(const std::vector<PlotGroup>& groups) {
  for (const PlotGroup& group : groups) {
    // Two or four plots are in pairs, others in threes, so that few places stay empty.
    const bool is_even = group.size() % 2 == 0;
    add(is_even ? "<div class=\"plots pairs\">\n" : "<div class=\"plots\">\n");
    for (const Plot& plot : group) plots.emplace_back(plot, "");
    add("</div>\n");
  }
}

ResultsReport::ResultsReport(ReportData data) {
  if (data.rows.empty()) throw UsageError("the results have no rows; there is nothing to report");
  all_ = arrange(std::move(data));
  PlotGroup overview = overview_plots(all_);
  if (!overview.empty()) {
    chapters_.push_back({{"overview", "At a glance", "", ""}});
    chapters_.back().add({std::move(overview)});
  }
  std::set<std::string> done;
  for (const Cell& cell : all_.cells) {
    if (done.insert(cell.scenario).second) add_scenario(cell.scenario);
  }
}

void ResultsReport::add_scenario(const std::string& scenario) {
  std::vector<const Cell*> cells;
  for (const Cell& cell : all_.cells) {
    if (cell.scenario == scenario) cells.push_back(&cell);
  }
  Chapter chapter{{"scenario-" + slug(scenario), scenario, "", ""}};
  add_sweeps(chapter);
  if (cells.size() > kDrawnCells) {
    add_failures(chapter, cells);
  } else {
    add_cells(chapter, cells);
  }
  chapters_.push_back(std::move(chapter));
}

void ResultsReport::add_sweeps(Chapter& chapter) const {
  const std::string& scenario = chapter.section.title;
  std::vector<const Sweep*> sweeps;
  for (const Sweep& sweep : all_.sweeps) {
    if (sweep.scenario == scenario) sweeps.push_back(&sweep);
  }
  if (sweeps.size() > kDrawnSweeps) {
    const std::string first = sweeps.front()->parameter;
    std::erase_if(sweeps, [&](const Sweep* sweep) { return sweep->parameter != first; });
  }
  std::vector<PlotGroup> groups;
  for (const Sweep* sweep : sweeps) {
    PlotGroup group = sweep_plots(all_, *sweep);
    if (!group.empty()) groups.push_back(std::move(group));
  }
  if (groups.empty()) return;
  chapter.add(groups);
  chapter.add(speedup_table(all_, scenario));
}

void ResultsReport::add_cells(Chapter& chapter, const std::vector<const Cell*>& cells) const {
  const bool folds = cells.size() > kOpenCells;
  for (const Cell* cell : cells) {
    if (cells.size() == 1) {
      chapter.section.subtitle = cell->params;
    } else {
      const std::string heading = html_escaped(cell->title.empty() ? cell->params : cell->title);
      if (folds) {
        chapter.add(fmt::format("<details{}><summary><b>{}</b></summary>\n",
                                cell == cells.back() ? " open" : "", heading));
      } else if (!heading.empty()) {
        chapter.add(fmt::format("<h3>{}</h3>\n", heading));
      }
      chapter.add(about(cell->params));
    }
    chapter.add(failure_list(all_, *cell));
    chapter.add(cell_plots(all_, *cell));
    chapter.add(cell_table(all_, *cell));
    if (folds) chapter.add("</details>\n");
  }
}

void ResultsReport::add_failures(Chapter& chapter, const std::vector<const Cell*>& cells) const {
  chapter.add(about(fmt::format("{} loads: the table of all results has a line for each contender.",
                                cells.size())));
  for (const Cell* cell : cells) {
    const std::string list = failure_list(all_, *cell);
    if (!list.empty()) chapter.add(fmt::format("<h3>{}</h3>\n{}", html_escaped(cell->title), list));
  }
}

std::vector<Plot> ResultsReport::plots() const {
  std::vector<Plot> plots;
  for (const Chapter& chapter : chapters_) {
    for (const auto& [plot, after] : chapter.plots) plots.push_back(plot);
  }
  return plots;
}

std::string ResultsReport::default_title() const {
  std::vector<std::string> scenarios;
  for (const Cell& cell : all_.cells) {
    if (scenarios.empty() || scenarios.back() != cell.scenario) scenarios.push_back(cell.scenario);
  }
  if (scenarios.size() > kTitledScenarios) return "Allocators compared";
  return fmt::format("{}: allocators compared", fmt::join(scenarios, ", "));
}

std::string ResultsReport::lead() const {
  std::set<std::string> contenders;
  for (const Series& series : all_.series) contenders.insert(series.contender);
  std::size_t failed = 0;
  for (const Row& row : all_.data.rows) failed += row.ok ? 0 : 1;
  std::string html =
      fmt::format("<p class=\"lead\">{} under {}. {}.</p>\n",
                  counted(contenders.size(), "contender"), counted(all_.cells.size(), "load"),
                  html_escaped(machine_line(all_.data.files.front().machine)));
  bool differs = std::ranges::any_of(all_.data.files, [&](const ReportFile& file) {
    return file.machine != all_.data.files.front().machine;
  });
  if (differs) {
    html += "<p><b>The files come from different machines:</b> compare ratios, not numbers.</p>\n";
  }
  if (failed > 0) {
    html += fmt::format("<p>{} of {} did not complete and are not ranked; each says why.</p>\n",
                        failed, counted(all_.data.rows.size(), "row"));
  }
  return html;
}

Page ResultsReport::page(const std::string& title, const Drawings& drawings) const {
  Page page;
  page.title = title;
  page.lead = lead();
  page.legend = all_.series;
  page.shapes = drawings.shapes;
  std::size_t next = 0;
  for (const Chapter& chapter : chapters_) {
    Section section = chapter.section;
    for (const auto& [plot, after] : chapter.plots) {
      section.html += figure(plot, drawings.svgs[next++]) + after;
    }
    page.sections.push_back(std::move(section));
  }
  page.sections.push_back({"table", "All results",
                           "Select a column title to sort by it. Ratios are to the first "
                           "contender or the system's malloc, with their 95% interval where there "
                           "are enough runs; bold is the best of its load.",
                           results_table(all_)});
  page.sections.push_back({"machine", "Machine and versions", "", machine_html(all_)});
  return page;
}

}  // namespace strata::cli
