#include <fmt/format.h>

#include <algorithm>

#include "advise/pattern.h"
#include "advise/trial.h"
#include "commands/explaining_command.h"
#include "input/read_file.h"
#include "output/progress.h"
#include "output/say.h"
#include "output/table.h"
#include "output/text.h"
#include "output/units.h"

namespace strata::cli {
namespace {

constexpr const char* kAdviseExamples = R"(Examples:
  strata record -o app.trace -- ./app
  strata advise app.trace
  strata advise app.trace --allocator strata --runs 15

For each place whose pattern fits an allocator of the toolkit, the trace is replayed with and without
that place's calls going there, in turns. Advice is printed if it saves at least 2% of the replay's CPU
time and costs at most 5% of the memory that it adds, or saves 2% of that and costs at most 2% of the
CPU time. The program's own work is in neither.)";

class AdviseCommand final : public ExplainingCommand {
 public:
  explicit AdviseCommand(CLI::App& app)
      : ExplainingCommand(app, "advise", "Say what would help a recorded program, and how much",
                          kAdviseExamples) {
    add_option("--allocator", allocator_, "NAME", "Where all other calls go (default system)");
    add_option("--places", places_, "N", "How many places are tried (default 8)");
    add_option("--runs", runs_, "N",
               "Replays with and without each change (default 7; intervals from 6 on)");
    add_flag("--all", is_all_, "Also list changes that were tried and are not worth making");
    add_reading_options();
  }

  int execute(const CommandLine&) override {
    const std::string& file = trace_file();
    refuse_pipe(file);
    const auto places = static_cast<std::size_t>(parse_count("--places", places_, 1, 1000));
    TrialPlan plan;
    plan.trace = file;
    plan.runs = static_cast<int>(parse_count("--runs", runs_, 3, 1000));
    plan.allocator = parse_contender(allocator_, library());
    expect_use_of(library(), {plan.allocator});
    check_preload(plan.allocator);

    Progress progress(!is_quiet());
    const Explained explained = read_trace(progress);
    const Explanation& explanation = explained.explanation;
    expect_events(explanation, "advise on");
    const std::vector<Candidate> candidates = find_candidates(explanation, places);
    const Catalogue catalogue = read_catalogue();
    plan.catalogue = &catalogue;
    std::vector<Trial> trials;
    {
      SignalWatch signals;
      TemporaryFolder folder("strata-advise");
      trials = try_candidates(plan, explanation, candidates, signals, folder,
                              [&](const std::string& what) {
                                progress.step(what + " ...");
                                end_if_interrupted(signals, folder);
                              });
      progress.clear();
      end_if_interrupted(signals, folder);
    }
    warn_of(explanation.places().notes());
    tell(explanation, trials);
    return 0;
  }

 private:
  static std::string amount(const char* what, const Difference& difference, bool is_bytes) {
    const auto text = [&](double value) {
      return is_bytes ? bytes_text(static_cast<std::uint64_t>(std::max(0.0, value)))
                      : time_text(std::max(0.0, value));
    };
    std::string line =
        fmt::format("{} {} to {}", what, text(difference.without), text(difference.with));
    if (!difference.ratio) return line;
    line += fmt::format(", {:.2f} times", difference.ratio->ratio);
    if (difference.ratio->low && difference.ratio->high) {
      line += fmt::format(" ({:.2f} to {:.2f})", *difference.ratio->low, *difference.ratio->high);
    }
    return line;
  }

  static void tell_one(const Explanation& explanation, const Trial& trial, bool has_change) {
    const PlaceSums& sums = explanation.sums()[trial.candidate.place];
    fmt::print("    {}.\n", with_plain_spaces(trial.candidate.pattern(sums)));
    if (!trial.failure.empty()) {
      fmt::print("    It could not be tried: {}.\n", trial.failure);
      return;
    }
    if (has_change)
      fmt::print("\n      {}\n\n", replaced(trial.candidate.change(sums), "\n", "\n      "));
    const std::string saved =
        amount("CPU time", trial.cpu_s, false) + "; " + amount("memory", trial.peak_bytes, true);
    fmt::print("    {}.\n", with_plain_spaces(saved));
  }

  void tell(const Explanation& explanation, const std::vector<Trial>& trials) const {
    const std::vector<Trial> best = best_trials(trials);
    const bool colour = wants_colour(stdout);
    std::size_t number = 0;
    for (const Trial& trial : best) {
      fmt::print("{}\n", styled(fmt::format("{}. {}", ++number, name_of(explanation, trial)),
                                Style::kBold, colour));
      tell_one(explanation, trial, true);
      fmt::print("\n");
    }
    const auto has_failed = [](const Trial& trial) { return !trial.failure.empty(); };
    if (best.empty()) {
      const bool was_all_tried = std::ranges::none_of(trials, has_failed);
      fmt::print("Nothing {} worth changing.\n",
                 was_all_tried ? "here is" : "that could be tried is");
    }
    if (trials.empty()) {
      fmt::print("No place has a pattern that an allocator of the toolkit would fit.\n");
    } else if (!best.empty()) {
      const std::optional<Ratio>& ratio = best.front().cpu_s.ratio;
      fmt::print(
          "Replays of the recorded calls with and without the change, {} each, in turns; "
          "medians{}.\n",
          runs_, ratio && ratio->low ? ", and 95% intervals of the ratio" : "");
    }
    for (const Trial& trial : trials) {
      if (trial.is_worth_it() || (!is_all_ && !has_failed(trial))) continue;
      fmt::print("\n{}: {}, {}\n", has_failed(trial) ? "Not tried" : "Not worth it",
                 name_of(explanation, trial),
                 trial.candidate.is_reserved() ? "reserve" : trial.candidate.route());
      tell_one(explanation, trial, false);
    }
  }

  static std::string name_of(const Explanation& explanation, const Trial& trial) {
    return explanation.places().names()[trial.candidate.place].line.short_text();
  }

  std::string allocator_ = "system";
  std::string places_ = "8";
  std::string runs_ = "7";
  bool is_all_ = false;
};

}  // namespace

std::unique_ptr<Command> make_advise_command(CLI::App& app) {
  return std::make_unique<AdviseCommand>(app);
}

}  // namespace strata::cli
