#include "bench/run_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/cell_watch.h"
#include "bench/comparison.h"
#include "bench/tally.h"
#include "measure/metric.h"
#include "process/output_capture.h"
#include "process/run_process.h"
#include "shared/cell_plan.h"
#include "shared/findings.h"

namespace strata::cli {
namespace {

constexpr std::size_t kLongestFindings = 16 << 20;

/// The results of a contender's runs of one cell so far.
struct CellTally : Tally {
  std::string unfit;

  bool is_out() const { return !row.reason.empty() || !unfit.empty(); }

  void add_latency(const std::string& kind, const Latency& latency) {
    for (auto& [name, sum] : row.latencies) {
      if (name == kind) return sum.merge(latency);
    }
    row.latencies.emplace_back(kind, latency);
  }
};

/// A finished process of a cell.
struct CellRun {
  ProcessResult result;
  cell::CellFindings findings;
};

CellRun run_cell(const BenchPlan& plan, const BenchCell& cell, const Contender& contender,
                 CellWatch& watch, OutputCapture& output, SignalWatch& signals) {
  OutputCapture findings;
  cell::CellPlan task = plan.load;
  task.scenario = cell.scenario->name;
  if (contender.is_in_process) task.contender = contender.name;
  task.threads = cell.threads;
  task.options = cell.options;
  task.board_fd = watch.board_fd();
  task.findings_fd = findings.fd();
  ProcessPlan process;
  process.program = helper_path("strata-cell");
  process.arguments = task.words();
  process.arguments.insert(process.arguments.begin(), "strata-cell");
  process.environment = contender.environment();
  process.inherited_fds = {watch.board_fd(), findings.fd()};
  process.output_fd = output.fd();
  process.timeout_s = plan.timeout_s;
  process.watch = [&watch] { return watch.look(); };
  CellRun run;
  run.result = run_process(process, signals);
  run.findings = cell::parse_findings(findings.head(kLongestFindings));
  return run;
}

/// Why a run is discarded; empty if it counts.
std::string failure_of(const CellRun& run, const Contender& contender, const OutputCapture& output,
                       double timeout_s) {
  const cell::CellFindings& findings = run.findings;
  if (!findings.broken.empty()) return fmt::format("corrupted memory: {}", findings.broken);
  if (!run.result.succeeded()) return describe_end(run.result, timeout_s);
  if (!findings.wrong.empty())
    return fmt::format("the load's counts do not add up: {}", findings.wrong);
  if (!findings.is_whole) return "ended without telling what it measured";
  if (was_not_preloaded(contender, output.head())) return "the dynamic linker could not preload it";
  if (findings.failed_allocations > 0) {
    return fmt::format("{} of {} allocations failed", findings.failed_allocations,
                       findings.allocations + findings.failed_allocations);
  }
  return {};
}

/// Adds the metrics of the cell, of its histograms, and of the samples from outside.
void add_metrics(CellTally& tally, const CellRun& run, const CellWatch& watch) {
  for (const auto& [name, value] : run.findings.metrics) tally.add(name, value);
  for (const cell::CellFindings::Latency& told : run.findings.latencies) {
    const Latency latency(told, run.findings.timer_cost_ns);
    for (const NamedPercentile& percentile : kPercentiles) {
      tally.add(fmt::format("{}_{}_ns", told.kind, percentile.name),
                latency.percentile_ns(percentile.share));
    }
    tally.add_latency(told.kind, latency);
  }
  std::uint64_t peak = run.result.peak_rss_bytes;
  const std::uint64_t tables = std::min(peak, watch.table_bytes());
  peak -= tables;
  const std::optional<TimelinePoint>& ready = watch.ready();
  const std::optional<TimelinePoint>& loaded = watch.loaded();
  auto add_point = [&](const char* name, const std::optional<TimelinePoint>& point) {
    if (!point) return;
    peak = std::max(peak, point->rss_bytes);  // the kernel's peak lags by some pages per processor
    tally.add(fmt::format("{}_rss_bytes", name), static_cast<double>(point->rss_bytes));
    if (point->pss_bytes) {
      tally.add(fmt::format("{}_pss_bytes", name), static_cast<double>(*point->pss_bytes));
    }
  };
  add_point("start", ready);
  add_point("loaded", loaded);
  add_point("after", watch.after());
  tally.add("peak_rss_bytes", static_cast<double>(peak));
  tally.add("table_bytes", static_cast<double>(tables));
  if (ready && loaded) {
    tally.add("load_minor_faults", static_cast<double>(loaded->minor_faults - ready->minor_faults));
    tally.add("load_major_faults", static_cast<double>(loaded->major_faults - ready->major_faults));
  }
  tally.add("startup_s", std::max(0.0, run.findings.entered_s - run.result.started_s));
  tally.add("process_cpu_s", run.result.cpu_s);
  tally.add("process_elapsed_s", run.result.elapsed_s);
}

void run_once(const BenchPlan& plan, const BenchCell& cell, const Contender& contender, int run,
              CellTally& tally, OutputCapture& output, SignalWatch& signals) {
  output.clear();
  CellWatch watch(plan.settle_of(*cell.scenario));
  const CellRun done = run_cell(plan, cell, contender, watch, output, signals);
  if (done.result.end == ProcessResult::End::kInterrupted) return;
  tally.unfit = done.findings.unfit;
  if (tally.is_out()) return;
  Row& row = tally.row;
  row.failed_allocations = row.failed_allocations.value_or(0) + done.findings.failed_allocations;
  const std::string failure = failure_of(done, contender, output, plan.timeout_s);
  if (!failure.empty()) {
    row.reason = fmt::format("{}, in run {} of {}", failure, run, plan.runs);
    row.is_broken = !done.findings.broken.empty();
    row.last_output = output.tail(OutputCapture::kLastLines);
    return;
  }
  ++tally.runs;
  add_metrics(tally, done, watch);
  if (row.timeline.empty()) row.timeline = watch.timeline();
}

/// Adds the rows of a cell's contenders, and notes on those left out.
void finish_cell(const BenchPlan& plan, const BenchCell& cell, std::vector<CellTally>& tallies,
                 const std::vector<const Contender*>& contenders, BenchOutcome& outcome) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    if (tallies[i].unfit.empty()) {
      rows.push_back(std::move(tallies[i])
                         .finished(cell.scenario->name, *contenders[i], params_of(plan, cell)));
      rows.back().failed_allocations = rows.back().failed_allocations.value_or(0);
    } else {
      outcome.notes.push_back(fmt::format("{} is left out of {}: it {}", contenders[i]->name,
                                          cell.title(), tallies[i].unfit));
    }
  }
  add_ratios(rows);
  outcome.rows_of_cells.push_back(rows.size());
  std::move(rows.begin(), rows.end(), std::back_inserter(outcome.rows));
}

}  // namespace

void add_ratios(std::vector<Row>& rows) {
  if (rows.empty() || !rows.front().ok) return;
  const Row& base = rows.front();
  for (std::size_t i = 1; i < rows.size(); ++i) {
    Row& row = rows[i];
    if (!row.ok) continue;
    for (const auto& [name, series] : row.values) {
      const std::vector<double>* bases = base.values_of(name);
      if (better(name) == Better::kNeither || bases == nullptr) continue;
      if (std::optional<Ratio> ratio = ratio_of(series, *bases)) {
        row.ratios.emplace_back(name, RatioTo{*ratio, base.contender});
      }
    }
  }
}

BenchOutcome run_cells(const BenchPlan& plan, SignalWatch& signals,
                       const std::function<void(const std::string& what)>& on_start) {
  BenchOutcome outcome;
  OutputCapture output;
  const std::size_t total =
      plan.cells.size() * plan.contenders.size() * static_cast<std::size_t>(plan.runs);
  std::size_t number = 0;
  for (const BenchCell& cell : plan.cells) {
    if (signals.interruption() != 0) break;
    std::vector<const Contender*> contenders;
    for (const Contender& contender : plan.contenders) {
      if (plan.catalogue->fits(*cell.scenario, contender)) contenders.push_back(&contender);
    }
    std::vector<CellTally> tallies(contenders.size());
    for (int run = 1; run <= plan.runs; ++run) {
      for (std::size_t index : rotated_order(tallies.size(), static_cast<std::size_t>(run - 1))) {
        ++number;
        if (tallies[index].is_out() || signals.interruption() != 0) continue;
        if (on_start) {
          on_start(fmt::format("[{}/{}] {}: {}, run {} of {}", number, total, cell.title(),
                               contenders[index]->name, run, plan.runs));
        }
        run_once(plan, cell, *contenders[index], run, tallies[index], output, signals);
      }
    }
    number += (plan.contenders.size() - contenders.size()) * static_cast<std::size_t>(plan.runs);
    finish_cell(plan, cell, tallies, contenders, outcome);
  }
  return outcome;
}

}  // namespace strata::cli
