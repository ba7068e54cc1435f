#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "contenders/contender.h"
#include "measure/results.h"
#include "process/output_capture.h"
#include "process/run_process.h"

namespace strata::cli {

/// One command to be run under several allocators.
struct ComparisonPlan {
  std::string scenario;              ///< the name that the rows carry
  std::string program;               ///< a path, as find_program gives it
  std::vector<std::string> command;  ///< the words, the program's own name first
  std::vector<Contender> contenders;
  std::vector<std::pair<std::string, std::string>> settings;  ///< environment of every run
  int runs = 6;
  int warmup = 1;
  double timeout_s = 0;
};

/// Tells the caller what happens while it happens.
struct ComparisonEvents {
  /// Before each run; `round` counts from 1 and goes through the warm-up first.
  std::function<void(int round, const Contender&)> on_start;
  /// After each run, with what the command printed.
  std::function<void(int round, const Contender&, const OutputCapture&)> on_end;
};

/// "warm-up 1 of 2", "run 3 of 6": what a round, from 1, is of the plan.
std::string run_name(const ComparisonPlan& plan, int round);

/// The order in which `count` contenders run in a round: each round starts one further, so that
/// none always runs first (a cold cache) or after the same neighbour.
std::vector<std::size_t> rotated_order(std::size_t count, std::size_t round);

/// Runs the command under every contender in rounds, so that a slow minute of the machine falls on
/// all of them alike. A contender whose run fails is out, its row says why, and the others go on.
/// \returns  One row per contender, in their order; after an interruption, with the runs that ended
///           before it.
std::vector<Row> run_comparison(const ComparisonPlan& plan, SignalWatch& signals,
                                const ComparisonEvents& events);

}  // namespace strata::cli
