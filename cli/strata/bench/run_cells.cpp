#include "bench/run_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/cell_report.h"
#include "bench/cell_watch.h"
#include "bench/comparison.h"
#include "measure/metric.h"
#include "process/output_capture.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

constexpr std::size_t kLastLines = 5;
constexpr std::size_t kLongestReport = 16 << 20;

/// What one contender's runs of one cell have given so far.
struct Lane {
  std::vector<std::pair<std::string, std::vector<double>>> values;
  std::vector<std::pair<std::string, Latency>> latencies;
  std::vector<TimelinePoint> timeline;
  std::uint64_t failed_allocations = 0;
  std::size_t runs = 0;
  std::string failure;
  std::string last_output;
  std::string unfit;
  bool is_broken = false;

  bool is_out() const { return !failure.empty() || !unfit.empty(); }

  /// One value for each run: of two of the same name the first counts.
  void add(const std::string& metric, double value) {
    for (auto& [name, series] : values) {
      if (name != metric) continue;
      if (series.size() < runs) series.push_back(value);
      return;
    }
    values.push_back({metric, {value}});
  }
};

/// One process, run.
struct CellRun {
  ProcessResult result;
  CellReport report;
};

std::vector<std::string> cell_words(const BenchPlan& plan, const BenchCell& cell,
                                    const Contender& contender) {
  std::vector<std::string> words = {"strata-cell", cell.scenario->name};
  auto add = [&](std::string_view name, const auto& value) {
    words.push_back(fmt::format("--{}={}", name, value));
  };
  if (contender.is_in_process) add("contender", contender.name);
  add("threads", cell.threads);
  add("seconds", plan.seconds);
  add("ops", plan.ops);
  add("warmup", plan.warmup);
  add("seed", plan.seed);
  add("sample-rate", plan.sample_rate);
  for (const auto& [name, value] : cell.options) add(name, value);
  return words;
}

CellRun run_cell(const BenchPlan& plan, const BenchCell& cell, const Contender& contender,
                 CellWatch& watch, OutputCapture& output, SignalWatch& signals) {
  OutputCapture report;
  ProcessPlan process;
  process.program = helper_path("strata-cell");
  process.arguments = cell_words(plan, cell, contender);
  process.arguments.push_back(fmt::format("--board-fd={}", watch.board_fd()));
  process.arguments.push_back(fmt::format("--report-fd={}", report.fd()));
  process.environment = Environment::inherited();
  process.environment.drop_preloaded_allocators();
  if (!contender.library.empty()) process.environment.preload(contender.library);
  process.inherited_fds = {watch.board_fd(), report.fd()};
  process.output_fd = process.error_fd = output.fd();
  process.timeout_s = plan.timeout_s;
  process.watch = [&watch] { return watch.look(); };
  CellRun run;
  run.result = run_process(process, signals);
  run.report = parse_cell_report(report.head(kLongestReport));
  return run;
}

/// Why a run does not count; empty if it does.
std::string failure_of(const CellRun& run, const Contender& contender, const OutputCapture& output,
                       double timeout_s) {
  const CellReport& report = run.report;
  if (!report.broken.empty()) return fmt::format("corrupted memory: {}", report.broken);
  if (!run.result.succeeded()) return describe_end(run.result, timeout_s);
  if (!report.wrong.empty()) return fmt::format("the load does not add up: {}", report.wrong);
  if (!report.is_whole) return "ended without a report";
  std::string refusal = fmt::format("object '{}' from LD_PRELOAD cannot be", contender.library);
  if (!contender.library.empty() && output.head().find(refusal) != std::string::npos) {
    return "the dynamic linker could not preload it";
  }
  if (report.failed_allocations > 0) {
    return fmt::format("{} of {} allocations failed", report.failed_allocations,
                       report.allocations + report.failed_allocations);
  }
  return {};
}

/// What the cell said, what its histograms say, and what was seen from outside.
void add_metrics(Lane& lane, const CellRun& run, const CellWatch& watch) {
  constexpr std::string_view kEntered = "entered_s";
  for (const auto& [name, value] : run.report.metrics) {
    if (name != kEntered) lane.add(name, value);
  }
  for (const auto& [kind, latency] : run.report.latencies) {
    for (const NamedPercentile& percentile : kPercentiles) {
      lane.add(fmt::format("{}_{}_ns", kind, percentile.name),
               latency.percentile_ns(percentile.share));
    }
  }
  const std::uint64_t peak = run.result.peak_rss_bytes;
  const std::uint64_t tables = std::min(peak, watch.table_bytes());
  lane.add("peak_rss_bytes", static_cast<double>(peak - tables));
  lane.add("table_bytes", static_cast<double>(tables));
  const TimelinePoint* ready = watch.ready();
  const TimelinePoint* loaded = watch.loaded();
  const TimelinePoint* after = watch.after();
  auto add_point = [&](const char* name, const TimelinePoint* point) {
    if (point == nullptr) return;
    lane.add(fmt::format("{}_rss_bytes", name), static_cast<double>(point->rss_bytes));
    if (point->pss_bytes) {
      lane.add(fmt::format("{}_pss_bytes", name), static_cast<double>(*point->pss_bytes));
    }
  };
  add_point("start", ready);
  add_point("loaded", loaded);
  add_point("after", after);
  if (ready != nullptr && loaded != nullptr) {
    lane.add("load_minor_faults", static_cast<double>(loaded->minor_faults - ready->minor_faults));
    lane.add("load_major_faults", static_cast<double>(loaded->major_faults - ready->major_faults));
  }
  const double entered_s = run.report.metric_or(kEntered, 0);
  if (entered_s > 0) lane.add("startup_s", std::max(0.0, entered_s - run.result.started_s));
  lane.add("process_cpu_s", run.result.cpu_s);
  lane.add("process_elapsed_s", run.result.elapsed_s);
}

void merge_latencies(Lane& lane, const CellReport& report) {
  for (const auto& [kind, latency] : report.latencies) {
    auto found = std::find_if(lane.latencies.begin(), lane.latencies.end(),
                              [&](const auto& entry) { return entry.first == kind; });
    if (found == lane.latencies.end()) {
      lane.latencies.emplace_back(kind, latency);
    } else {
      found->second.merge(latency);
    }
  }
}

void run_lane(const BenchPlan& plan, const BenchCell& cell, const Contender& contender, int run,
              Lane& lane, OutputCapture& output, SignalWatch& signals) {
  output.clear();
  CellWatch watch(plan.settle_of(*cell.scenario));
  CellRun done = run_cell(plan, cell, contender, watch, output, signals);
  if (done.result.end == ProcessResult::End::kInterrupted) return;
  if (!done.report.unfit.empty()) {
    lane.unfit = done.report.unfit;
    return;
  }
  lane.failed_allocations += done.report.failed_allocations;
  std::string failure = failure_of(done, contender, output, plan.timeout_s);
  if (!failure.empty()) {
    lane.failure = fmt::format("{}, in run {} of {}", failure, run, plan.runs);
    lane.is_broken = !done.report.broken.empty();
    lane.last_output = output.tail(kLastLines);
    return;
  }
  ++lane.runs;
  add_metrics(lane, done, watch);
  merge_latencies(lane, done.report);
  if (lane.timeline.empty()) lane.timeline = watch.timeline();
}

Row make_row(const BenchPlan& plan, const BenchCell& cell, const Contender& contender, Lane& lane) {
  Row row;
  row.scenario = cell.scenario->name;
  row.contender = contender.name;
  row.version = contender.version;
  row.library = contender.library;
  row.label = plan.label;
  row.params = params_of(plan, cell);
  for (const auto& [name, series] : lane.values) row.metrics.emplace_back(name, summarize(series));
  row.values = std::move(lane.values);
  row.latencies = std::move(lane.latencies);
  row.timeline = std::move(lane.timeline);
  row.failed_allocations = lane.failed_allocations;
  row.is_broken = lane.is_broken;
  row.reason = lane.failure;
  if (row.reason.empty() && lane.runs == 0) row.reason = kInterruptedTooEarly;
  row.ok = row.reason.empty();
  row.last_output = lane.last_output;
  return row;
}

/// What a cell's contenders gave, and who was left out.
void finish_cell(const BenchPlan& plan, const BenchCell& cell, std::vector<Lane>& lanes,
                 const std::vector<const Contender*>& contenders, BenchOutcome& outcome) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i].unfit.empty()) {
      rows.push_back(make_row(plan, cell, *contenders[i], lanes[i]));
      continue;
    }
    outcome.notes.push_back(fmt::format("{} is left out of {}{}{}: it {}", contenders[i]->name,
                                        cell.scenario->name, cell.varying.empty() ? "" : " ",
                                        cell.varying, lanes[i].unfit));
  }
  add_ratios(rows);
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
                       const std::function<void(const CellStart&)>& on_start) {
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
    std::vector<Lane> lanes(contenders.size());
    for (int run = 1; run <= plan.runs; ++run) {
      for (std::size_t index : rotated_order(lanes.size(), static_cast<std::size_t>(run - 1))) {
        ++number;
        if (lanes[index].is_out() || signals.interruption() != 0) continue;
        if (on_start) on_start({cell, *contenders[index], run, number, total});
        run_lane(plan, cell, *contenders[index], run, lanes[index], output, signals);
      }
    }
    number += (plan.contenders.size() - contenders.size()) * static_cast<std::size_t>(plan.runs);
    finish_cell(plan, cell, lanes, contenders, outcome);
  }
  return outcome;
}

}  // namespace strata::cli
