#include "bench/comparison.h"

#include <fmt/format.h>

#include <utility>

#include "bench/tally.h"

namespace strata::cli {
namespace {

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
      Row& row = tally.row;
      const Contender& contender = plan.contenders[index];
      if (!row.reason.empty() || signals.interruption() != 0) continue;
      if (events.on_start) events.on_start(round, contender);
      output.clear();
      ProcessPlan process = process_plan(plan, contender, output.fd());
      ProcessResult result = run_process(process, signals);
      if (events.on_end) events.on_end(round, contender, output);
      if (result.end == ProcessResult::End::kInterrupted) continue;
      std::string failure = failure_of(result, contender, output, plan.timeout_s);
      if (!failure.empty()) {
        row.reason = fmt::format("{}, in {}", failure, run_name(plan, round));
        row.last_output = output.tail(OutputCapture::kLastLines);
      } else if (round > plan.warmup) {
        ++tally.runs;
        tally.add("elapsed_s", result.elapsed_s);
        tally.add("cpu_s", result.cpu_s);
        tally.add("peak_rss_bytes", static_cast<double>(result.peak_rss_bytes));
        tally.add("minor_faults", static_cast<double>(result.minor_faults));
        tally.add("major_faults", static_cast<double>(result.major_faults));
      }
    }
  }
  const nlohmann::ordered_json params = {{"command", plan.command},
                                         {"runs", plan.runs},
                                         {"warmup", plan.warmup},
                                         {"timeout_s", plan.timeout_s}};
  std::vector<Row> rows;
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    rows.push_back(std::move(tallies[i]).finished(plan.scenario, plan.contenders[i], params));
    rows.back().values.clear();  // only summaries are told
  }
  return rows;
}

}  // namespace strata::cli
