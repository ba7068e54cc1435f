#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/matrix.h"
#include "measure/results.h"
#include "process/signal_watch.h"

namespace strata::cli {

/// The result of a plan; after an interruption, the part completed so far.
struct BenchOutcome {
  std::vector<Row> rows;  ///< by cell, then by contender; ratios are to the first contender
  std::vector<std::size_t> rows_of_cells;  ///< the number of rows of each cell
  /// Sentences about contenders that were left out of cells because they do not fit.
  std::vector<std::string> notes;
};

/// Runs every cell under every contender, each run in its own process, with a cell's contenders in
/// turns. A contender that crashes, hangs, fails an allocation or corrupts memory drops out of the
/// cell with a reason in its row; everything else goes on.
/// \param on_start  called before each run with a description of it
BenchOutcome run_cells(const BenchPlan& plan, SignalWatch& signals,
                       const std::function<void(const std::string& what)>& on_start);

/// Computes the ratios of a cell's rows to the first row. A row that is not ok did other work: it
/// has no ratio, and no row has a ratio to it.
void add_ratios(std::vector<Row>& rows);

}  // namespace strata::cli
