#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/matrix.h"
#include "measure/results.h"
#include "process/signal_watch.h"

namespace strata::cli {

/// What is about to run, for a display of the progress.
struct CellStart {
  const BenchCell& cell;
  const Contender& contender;
  int run = 1;             ///< of BenchPlan::runs
  std::size_t number = 1;  ///< of all runs of the plan, from 1
  std::size_t total = 1;
};

/// What came of a plan. After an interruption, what ended before it.
struct BenchOutcome {
  std::vector<Row> rows;  ///< by cell, in it by contender; ratios are to the first contender
  std::vector<std::size_t> rows_of_cells;  ///< how many of them each cell of the plan has
  /// Sentences about contenders that were left out of cells because they do not fit them.
  std::vector<std::string> notes;
};

/// Runs every cell under every contender, each run in a process of its own, the contenders of a
/// cell in turns. A contender that crashes, hangs, fails an allocation or corrupts memory is out of
/// its cell with the reason in its row; everything else goes on.
BenchOutcome run_cells(const BenchPlan& plan, SignalWatch& signals,
                       const std::function<void(const CellStart&)>& on_start);

/// Fills in the ratios of the rows of one cell, to the first of them. A row that is not ok did not
/// do the same work: it has no ratio, and no other row has one to it.
void add_ratios(std::vector<Row>& rows);

}  // namespace strata::cli
