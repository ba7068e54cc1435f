#include "harness/batches.h"

#include <algorithm>
#include <thread>

namespace strata::cell {

void report_batches(Cell& cell, const std::vector<BatchTimes>& lanes) {
  double rate = 0;
  double first_s = 0;
  BatchTimes sum;
  sum.steady_from_s = lanes.front().steady_from_s;
  for (const BatchTimes& lane : lanes) {
    if (lane.counted_s > 0) rate += static_cast<double>(lane.counted_ops) / lane.counted_s;
    first_s += lane.first_s;
    sum.first_ops += lane.first_ops;
    sum.first_faults += lane.first_faults;
    sum.counted_ops += lane.counted_ops;
    sum.counted_cpu_s += lane.counted_cpu_s;
    sum.timed_ops += lane.timed_ops;
    sum.steady_faults += lane.steady_faults;
    sum.steady_from_s = std::min(sum.steady_from_s, lane.steady_from_s);
    sum.steady_until_s = std::max(sum.steady_until_s, lane.steady_until_s);
  }
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  if (lanes.size() > cores) {
    rate = static_cast<double>(sum.counted_ops + sum.timed_ops) /
           (sum.steady_until_s - sum.steady_from_s);
  }
  if (rate > 0) {
    cell.metric("ns_per_op", 1e9 * static_cast<double>(lanes.size()) / rate);
    cell.metric("ops_per_s", rate);
  }
  if (sum.counted_ops > 0) {
    const double cpu_ns = 1e9 * sum.counted_cpu_s / static_cast<double>(sum.counted_ops);
    const double held_ns = 1e9 * static_cast<double>(std::min(lanes.size(), cores)) / rate;
    cell.metric("cpu_ns_per_op", cpu_ns);
    cell.metric("core_ns_per_op", std::max(cpu_ns, held_ns));
  }
  if (sum.first_ops > 0) {
    cell.metric("first_ns_per_op", 1e9 * first_s / static_cast<double>(sum.first_ops));
  }
  cell.metric("first_faults", static_cast<double>(sum.first_faults));
  cell.metric("steady_faults", static_cast<double>(sum.steady_faults));
  cell.metric("ops", static_cast<double>(sum.counted_ops + sum.timed_ops));
}

}  // namespace strata::cell
