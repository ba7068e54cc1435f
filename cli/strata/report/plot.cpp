#include "report/plot.h"

#include <algorithm>
#include <numeric>

namespace strata::cli {

std::vector<double> spread_apart(std::vector<double> wanted, double gap, double low, double high) {
  std::size_t count = wanted.size();
  if (count == 0) return wanted;
  if (count > 1) gap = std::min(gap, (high - low) / static_cast<double>(count - 1));
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  // Neighbours that are too close become one group, centred on the mean of what its members want.
  struct Group {
    double sum;
    std::size_t first;
    std::size_t size;
  };
  auto start_of = [&](const Group& group) {
    double extent = gap * static_cast<double>(group.size - 1);
    double start = group.sum / static_cast<double>(group.size) - extent / 2;
    return std::clamp(start, low, std::max(low, high - extent));
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < count; ++i) {
    groups.push_back({std::clamp(wanted[order[i]], low, high), i, 1});
    while (groups.size() > 1) {
      Group& last = groups.back();
      Group& before = groups[groups.size() - 2];
      double end = start_of(before) + gap * static_cast<double>(before.size - 1);
      if (start_of(last) >= end + gap * (1 - 1e-9)) break;
      before.sum += last.sum;
      before.size += last.size;
      groups.pop_back();
    }
  }
  for (const Group& group : groups) {
    for (std::size_t i = 0; i < group.size; ++i) {
      wanted[order[group.first + i]] = start_of(group) + gap * static_cast<double>(i);
    }
  }
  return wanted;
}

}  // namespace strata::cli
