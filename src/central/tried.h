#pragma once

#include <cstddef>

namespace strata {

/// The result of a call that does not wait: it skips what another thread holds.
struct Tried {
  std::size_t count;
  bool was_busy;  ///< something was skipped, which may have had more
};

}  // namespace strata
