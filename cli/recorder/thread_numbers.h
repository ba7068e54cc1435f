#pragma once

#include <cstdint>

#include "shared/trace/layout.h"

namespace strata::recorder {

/// Numbers the threads of a trace in order of appearance. Once all numbers are used, further
/// threads share the last one.
class ThreadNumbers {
 public:
  std::uint32_t take() noexcept { return next_ < kLast ? next_++ : kLast; }

 private:
  static constexpr std::uint32_t kLast = trace::kMostThreads - 1;
  std::uint32_t next_ = 0;
};

}  // namespace strata::recorder
