#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace strata {

/// The seed of a random test: a new one in each run. It is printed before the test starts, so that
/// it is known after an abort, too. STRATA_SEED in the environment repeats a run.
inline std::uint64_t seed_of_this_run() {
  const char* const given = std::getenv("STRATA_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  std::cout << "STRATA_SEED=" << seed << " repeats this run" << std::endl;
  return seed;
}

/// A fixture for random tests.
class SeededTest : public ::testing::Test {
 protected:
  /// A number from 0 to limit - 1.
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  }

  std::mt19937_64 random{seed_of_this_run()};
};

}  // namespace strata
