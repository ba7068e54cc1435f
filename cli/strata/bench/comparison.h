#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "contenders/contender.h"
#include "measure/results.h"
#include "process/output_capture.h"
#include "process/run_process.h"

namespace strata::cli {

/// A command to run under several allocators.
struct ComparisonPlan {
  std::string scenario;              ///< the rows' scenario name
  std::string program;               ///< a path, from find_program()
  std::vector<std::string> command;  ///< argv, beginning with the program's name
  std::vector<Contender> contenders;
  int runs = 6;
  int warmup = 1;
  double timeout_s = 0;
};

struct ComparisonEvents {
  /// Before each run; `round` counts from 1, warm-up first.
  std::function<void(int round, const Contender&)> on_start;
  /// After each run, with the command's output.
  std::function<void(int round, const Contender&, const OutputCapture&)> on_end;
};

/// The name of a round, counted from 1: "warm-up 1 of 2", "run 3 of 6".
std::string run_name(const ComparisonPlan& plan, int round);

/// The order of `count` contenders in a round. Each round starts one further, so that none always
/// runs first (with a cold cache).
std::vector<std::size_t> rotated_order(std::size_t count, std::size_t round);

/// Runs the command under every contender in rounds, so that a slow minute of the machine affects
/// all alike. A contender whose run fails drops out with a reason in its row; the others go on.
/// \returns  One row per contender, in order; after an interruption, with the runs completed so
///           far.
std::vector<Row> run_comparison(const ComparisonPlan& plan, SignalWatch& signals,
                                const ComparisonEvents& events);

}  // namespace strata::cli
