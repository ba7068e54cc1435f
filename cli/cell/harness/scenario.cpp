#include "harness/scenario.h"

#include <algorithm>
#include <utility>

namespace strata::cell {
namespace {

std::vector<Load>& registered() {
  static std::vector<Load> all;
  return all;
}

}  // namespace

void add_load(Load load) {
  std::vector<Load>& all = registered();
  auto next = std::find_if(all.begin(), all.end(), [&](const Load& other) {
    return load.scenario.name < other.scenario.name;
  });
  all.insert(next, std::move(load));
}

const std::vector<Load>& loads() { return registered(); }

}  // namespace strata::cell
