#include "os/clock.h"

#include <gtest/gtest.h>

namespace strata::os {
namespace {

TEST(Clock, NeverGoesBackAndMoves) {
  const std::uint64_t start = monotonic_ns();
  std::uint64_t before = start;
  while (before == start) {  // for ever, if it stands still
    const std::uint64_t now = monotonic_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, OfTheProcessMovesWhileItWorks) {
  const std::uint64_t start = process_cpu_ns();
  std::uint64_t before = start;
  while (before == start) {  // for ever, if it stands still
    const std::uint64_t now = process_cpu_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, OfAThreadMovesWhileItWorks) {
  const std::uint64_t start = thread_cpu_ns();
  std::uint64_t before = start;
  while (before == start) {  // for ever, if it stands still
    const std::uint64_t now = thread_cpu_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace strata::os
