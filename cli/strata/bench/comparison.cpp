#include "bench/comparison.h"

#include <fmt/format.h>

namespace strata::cli {
namespace {

/// The results of a contender's runs so far.
struct Tally {
  std::vector<ProcessResult> runs;
  std::string failure;
  std::string last_output;
};

ProcessPlan process_plan(const ComparisonPlan& plan, const Contender& contender, int output_fd) {
  ProcessPlan process;
  process.program = plan.program;
  process.arguments = plan.command;
  process.environment = contender.environment();
  process.output_fd = output_fd;
  process.timeout_s = plan.timeout_s;
  return process;
}

/// Why a run is discarded; empty if it counts.
std::string failure_of(const ProcessResult& result, const Contender& contender,
                       const OutputCapture& output, double timeout_s) {
  if (!result.succeeded()) return describe_end(result, timeout_s);
  // The command started a program of another word size, which ran on its own malloc.
  if (was_not_preloaded(contender, output.head())) {
    return "the dynamic linker could not preload it into a program that the command starts";
  }
  return {};
}

Row make_row(const ComparisonPlan& plan, const Contender& contender, const Tally& tally) {
  Row row;
  row.scenario = plan.scenario;
  row.contender = contender.name;
  row.version = contender.version;
  row.library = contender.library;
  row.params["command"] = plan.command;
  row.params["runs"] = plan.runs;
  row.params["warmup"] = plan.warmup;
  row.params["timeout_s"] = plan.timeout_s;
  auto add = [&](const char* name, auto member) {
    std::vector<double> samples;
    for (const ProcessResult& run : tally.runs) samples.push_back(static_cast<double>(run.*member));
    row.metrics.emplace_back(name, summarize(std::move(samples)));
  };
  if (!tally.runs.empty()) {
    add("elapsed_s", &ProcessResult::elapsed_s);
    add("cpu_s", &ProcessResult::cpu_s);
    add("peak_rss_bytes", &ProcessResult::peak_rss_bytes);
    add("minor_faults", &ProcessResult::minor_faults);
    add("major_faults", &ProcessResult::major_faults);
  }
  row.reason = tally.failure;
  if (row.reason.empty() && tally.runs.empty()) row.reason = kInterruptedTooEarly;
  row.ok = row.reason.empty();
  row.last_output = tally.last_output;
  return row;
}

}  // namespace

std::string run_name(const ComparisonPlan& plan, int round) {
  if (round <= plan.warmup) return fmt::format("warm-up {} of {}", round, plan.warmup);
  return fmt::format("run {} of {}", round - plan.warmup, plan.runs);
}

std::vector<std::size_t> rotated_order(std::size_t count, std::size_t round) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) order.push_back((round + i) % count);
  return order;
}

std::vector<Row> run_comparison(const ComparisonPlan& plan, SignalWatch& signals,
                                const ComparisonEvents& events) {
  std::vector<Tally> tallies(plan.contenders.size());
  OutputCapture output;
  for (int round = 1; round <= plan.warmup + plan.runs; ++round) {
    for (std::size_t index : rotated_order(tallies.size(), static_cast<std::size_t>(round - 1))) {
      Tally& tally = tallies[index];
      const Contender& contender = plan.contenders[index];
      if (!tally.failure.empty() || signals.interruption() != 0) continue;
      if (events.on_start) events.on_start(round, contender);
      output.clear();
      ProcessPlan process = process_plan(plan, contender, output.fd());
      ProcessResult result = run_process(process, signals);
      if (events.on_end) events.on_end(round, contender, output);
      if (result.end == ProcessResult::End::kInterrupted) continue;
      std::string failure = failure_of(result, contender, output, plan.timeout_s);
      if (!failure.empty()) {
        tally.failure = fmt::format("{}, in {}", failure, run_name(plan, round));
        tally.last_output = output.tail(OutputCapture::kLastLines);
      } else if (round > plan.warmup) {
        tally.runs.push_back(result);
      }
    }
  }
  std::vector<Row> rows;
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    rows.push_back(make_row(plan, plan.contenders[i], tallies[i]));
  }
  return rows;
}

}  // namespace strata::cli
