#include "advise/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "bench/run_cells.h"

namespace strata::cli {
namespace {

// Chosen: what a person would change code for, above what a replay tells apart.
constexpr double kWorthShare = 0.02;
constexpr double kHarmlessShare = 0.05;

/// The replays of one plan.
struct Lane {
  BenchCell cell;
  std::vector<double> cpu_s;
  std::vector<double> peak_bytes;
  std::string failure;
};

double value_of(const Row& row, const char* metric) {
  const Summary* summary = row.metric(metric);
  return summary == nullptr ? 0 : summary->median;
}

void run_once(const TrialPlan& plan, const Catalogue& catalogue, Lane& lane, SignalWatch& signals) {
  BenchPlan bench;
  bench.catalogue = &catalogue;
  bench.contenders = {plan.allocator};
  bench.runs = 1;
  bench.settle_s = 0;
  bench.cells = {lane.cell};
  const BenchOutcome outcome = run_cells(bench, signals, {});
  if (signals.interruption() != 0) return;
  if (outcome.rows.empty() || !outcome.rows.front().ok) {
    lane.failure = outcome.rows.empty() ? "it was left out" : outcome.rows.front().reason;
    return;
  }
  lane.cpu_s.push_back(value_of(outcome.rows.front(), "cpu_s"));
  lane.peak_bytes.push_back(value_of(outcome.rows.front(), "peak_gain_bytes"));
}

Difference difference(const std::vector<double>& without, const std::vector<double>& with) {
  return {summarize(without).median, summarize(with).median, ratio_of(with, without)};
}

Lane make_lane(const TrialPlan& plan, const Catalogue& catalogue, const Explanation& explanation,
               const Candidate* candidate, const std::string& file) {
  PlanOptions what;
  ReplayOptions how;
  if (candidate != nullptr) {
    what.routed = explanation.places().stacks_of(candidate->place);
    what.is_reserved = candidate->is_reserved();
    how.route = candidate->route();
  }
  Planned planned{plan.trace, file, {}};
  planned.summary = write_plan(plan.trace, file, what, [](double) {});
  how.sample_rate = 0;
  return {replay_cell(catalogue, planned, how), {}, {}, {}};
}

}  // namespace

bool Difference::is_less(double share) const noexcept {
  if (!ratio) return false;
  return ratio->high.value_or(ratio->ratio) < 1 - share;
}

bool Difference::is_more(double share) const noexcept {
  if (!ratio) return with > without;
  return ratio->ratio > 1 + share;
}

bool Trial::is_worth_it() const noexcept {
  if (!failure.empty()) return false;
  return (cpu_s.is_less(kWorthShare) && !peak_bytes.is_more(kHarmlessShare)) ||
         (peak_bytes.is_less(kWorthShare) && !cpu_s.is_more(kWorthShare));
}

std::vector<Trial> try_candidates(const TrialPlan& plan, const Catalogue& catalogue,
                                  const Explanation& explanation,
                                  const std::vector<Candidate>& candidates, SignalWatch& signals,
                                  const TemporaryFolder& folder, const OnTrial& on_trial) {
  std::vector<Lane> lanes;
  lanes.push_back(make_lane(plan, catalogue, explanation, nullptr, folder.file("as-it-is.plan")));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    on_trial(fmt::format("planning {} of {}", i + 1, candidates.size()));
    lanes.push_back(make_lane(plan, catalogue, explanation, &candidates[i],
                              folder.file(fmt::format("{}.plan", i))));
  }
  for (int run = 1; run <= plan.runs; ++run) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      // Each round begins with another one, so that nobody is always the first.
      const std::size_t at = (i + static_cast<std::size_t>(run)) % lanes.size();
      if (signals.interruption() != 0) return {};
      on_trial(fmt::format("run {} of {}, {} of {}", run, plan.runs, i + 1, lanes.size()));
      if (lanes[at].failure.empty()) run_once(plan, catalogue, lanes[at], signals);
    }
    if (!lanes.front().failure.empty()) {
      throw std::runtime_error(
          fmt::format("the trace cannot be replayed: {}", lanes.front().failure));
    }
  }
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Lane& lane = lanes[i + 1];
    trials.push_back({candidates[i], difference(lanes.front().cpu_s, lane.cpu_s),
                      difference(lanes.front().peak_bytes, lane.peak_bytes), lane.failure});
  }
  return trials;
}

std::vector<Trial> best_trials(const std::vector<Trial>& trials) {
  // What is saved of time and of memory, as shares: one number to choose by.
  const auto gain = [](const Trial& trial) {
    const auto of = [](const Difference& difference) {
      return difference.ratio ? 1 - difference.ratio->ratio : 0;
    };
    return of(trial.cpu_s) + of(trial.peak_bytes);
  };
  std::map<std::uint32_t, Trial> best;
  for (const Trial& trial : trials) {
    if (!trial.is_worth_it()) continue;
    const auto [entry, is_new] = best.try_emplace(trial.candidate.place, trial);
    if (!is_new && gain(trial) > gain(entry->second)) entry->second = trial;
  }
  std::vector<Trial> sorted;
  for (auto& [place, trial] : best) sorted.push_back(std::move(trial));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Trial& a, const Trial& b) { return gain(a) > gain(b); });
  return sorted;
}

}  // namespace strata::cli
