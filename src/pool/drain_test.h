#pragma once

#include <vector>

namespace strata {

/// Takes all blocks that a pool has left, in the order in which it hands them out.
template <typename Pool>
std::vector<void*> drain(Pool& pool) {
  std::vector<void*> blocks;
  while (void* p = pool.allocate()) blocks.push_back(p);
  return blocks;
}

}  // namespace strata
