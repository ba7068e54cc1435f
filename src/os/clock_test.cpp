#include "os/clock.h"

#include <gtest/gtest.h>

namespace strata::os {
namespace {

/// Waits for ever if the clock stands still.
void expect_to_move(std::uint64_t (*clock)() noexcept) {
  const std::uint64_t start = clock();
  std::uint64_t before = start;
  while (before == start) {
    const std::uint64_t now = clock();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Clock, NeverGoesBackAndMoves) { expect_to_move(monotonic_ns); }

TEST(Clock, OfTheProcessMovesWhileItWorks) { expect_to_move(process_cpu_ns); }

TEST(Clock, OfAThreadMovesWhileItWorks) { expect_to_move(thread_cpu_ns); }

}  // namespace
}  // namespace strata::os
