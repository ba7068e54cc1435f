#pragma once

#include <cstddef>

namespace strata {

/// What a call got that passes over what another thread holds, instead of waiting for it.
struct Tried {
  std::size_t count;
  bool was_busy;  ///< something was passed over: it may have had more
};

}  // namespace strata
