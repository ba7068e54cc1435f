#include "advise/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "bench/comparison.h"
#include "bench/run_cells.h"
#include "replay/replay.h"

namespace strata::cli {
namespace {

// Chosen: savings worth a change of code, and larger than the noise of a replay.
constexpr double kWorthShare = 0.02;
constexpr double kHarmlessShare = 0.05;
/// Chosen: the kernel counts a process's pages per processor, with an error of 128 KiB each.
constexpr double kFewBytes = 256 * 1024;

/// The replays of a plan.
struct Replays {
  BenchPlan bench;  ///< for one run
  std::vector<double> cpu_s;
  std::vector<double> peak_bytes;
  std::string failure;
};

void run_once(Replays& replays, SignalWatch& signals) {
  const BenchOutcome outcome = run_cells(replays.bench, signals, {});
  if (signals.interruption() != 0) return;
  if (outcome.rows.empty() || !outcome.rows.front().ok) {
    replays.failure = outcome.rows.empty() ? "it was left out" : outcome.rows.front().reason;
    return;
  }
  replays.cpu_s.push_back(outcome.rows.front().median("cpu_s"));
  replays.peak_bytes.push_back(outcome.rows.front().median("peak_gain_bytes"));
}

Difference difference(const std::vector<double>& without, const std::vector<double>& with) {
  return {summarize(without).median, summarize(with).median, ratio_of(with, without)};
}

/// \param candidate  nullptr: the trace is unchanged
/// \param is_made    false: the baseline of the change
Replays plan_replays(const TrialPlan& plan, const Explanation& explanation,
                     const Candidate* candidate, bool is_made, const std::string& file) {
  PlanOptions what;
  ReplayOptions how;
  if (candidate != nullptr) {
    what.routed = explanation.places().stacks_of(candidate->place);
    if (candidate->is_reserved()) what.growth = is_made ? Growth::kReserved : Growth::kMoved;
    how.route = candidate->route();
  }
  Replays replays;
  BenchPlan& bench = replays.bench;
  bench.catalogue = plan.catalogue;
  bench.contenders = {plan.allocator};
  bench.runs = 1;
  bench.settle_s = 0;
  bench.cells = {replay_cell(bench, write_plan(plan.trace, file, what, [](double) {}), how)};
  return replays;
}

/// The replays of all plans, and the pair of them that judges each candidate.
struct AllReplays {
  std::vector<Replays> of_plans;
  std::vector<std::pair<std::size_t, std::size_t>> of_candidates;  ///< without, with
};

AllReplays plan_all(const TrialPlan& plan, const Explanation& explanation,
                    const std::vector<Candidate>& candidates, const TemporaryFolder& folder,
                    const OnTrial& on_trial) {
  AllReplays all;
  const auto add = [&](const Candidate* candidate, bool is_made) {
    const std::string file = folder.file(fmt::format("{}.plan", all.of_plans.size()));
    all.of_plans.push_back(plan_replays(plan, explanation, candidate, is_made, file));
    return all.of_plans.size() - 1;
  };
  add(nullptr, false);
  for (const Candidate& candidate : candidates) {
    on_trial(fmt::format("planning {} of {}", all.of_candidates.size() + 1, candidates.size()));
    // Reserving also saves a growing vector's moves, so both replays make the moves.
    const std::size_t without = candidate.is_reserved() ? add(&candidate, false) : 0;
    all.of_candidates.emplace_back(without, add(&candidate, true));
  }
  return all;
}

}  // namespace

bool Difference::is_less(double share, double amount) const noexcept {
  const double ratio_at_most = ratio ? ratio->high.value_or(ratio->ratio) : with / without;
  return without - with >= amount && ratio_at_most < 1 - share;
}

bool Difference::is_more(double share, double amount) const noexcept {
  return with - without > std::max(amount, share * without);
}

bool Trial::is_worth_it() const noexcept {
  if (!failure.empty()) return false;
  return (cpu_s.is_less(kWorthShare, 0) && !peak_bytes.is_more(kHarmlessShare, kFewBytes)) ||
         (peak_bytes.is_less(kWorthShare, kFewBytes) && !cpu_s.is_more(kWorthShare, 0));
}

std::vector<Trial> try_candidates(const TrialPlan& plan, const Explanation& explanation,
                                  const std::vector<Candidate>& candidates, SignalWatch& signals,
                                  const TemporaryFolder& folder, const OnTrial& on_trial) {
  AllReplays planned = plan_all(plan, explanation, candidates, folder, on_trial);
  std::vector<Replays>& all = planned.of_plans;
  for (int run = 1; run <= plan.runs; ++run) {
    int number = 0;
    for (const std::size_t at : rotated_order(all.size(), static_cast<std::size_t>(run))) {
      if (signals.interruption() != 0) return {};
      on_trial(fmt::format("run {} of {}, {} of {}", run, plan.runs, ++number, all.size()));
      if (all[at].failure.empty()) run_once(all[at], signals);
    }
    if (!all.front().failure.empty()) {
      throw std::runtime_error(
          fmt::format("the trace cannot be replayed: {}", all.front().failure));
    }
  }
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto [without, with] = planned.of_candidates[i];
    const std::string& failure =
        all[with].failure.empty() ? all[without].failure : all[with].failure;
    trials.push_back({candidates[i], difference(all[without].cpu_s, all[with].cpu_s),
                      difference(all[without].peak_bytes, all[with].peak_bytes), failure});
  }
  return trials;
}

std::vector<Trial> best_trials(const std::vector<Trial>& trials) {
  // The sum of the shares of time and memory saved, to choose by.
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
  std::ranges::stable_sort(sorted, std::greater(), gain);
  return sorted;
}

}  // namespace strata::cli
