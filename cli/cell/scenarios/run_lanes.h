#pragma once

#include "contenders/in_process.h"
#include "harness/batches.h"

namespace strata::cell {

/// Runs a load that repeats itself under the contender of this cell. make_lane(memory, worker) is
/// compiled for each contender that fits; tell_more() is as for run_batches().
template <Fits kFits, typename MakeLane, typename TellMore = void (*)()>
void run_lanes(
    Cell& cell, const Needs& needs, MakeLane make_lane, TellMore tell_more = [] {}) {
  with_contender<kFits>(cell, needs, [&](auto& memory) {
    run_batches(
        cell, [&](Worker& worker) { return make_lane(memory, worker); }, tell_more);
  });
}

}  // namespace strata::cell
