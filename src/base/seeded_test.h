#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace strata {

/// A fixture for random tests: `random` is seeded afresh in each run, the seed is printed before
/// the test starts (an abort loses nothing), and STRATA_SEED in the environment repeats it.
class SeededTest : public ::testing::Test {
 protected:
  SeededTest() : seed_(choose()), random(seed_) {
    std::cout << "STRATA_SEED=" << seed_ << " repeats this run" << std::endl;
  }

  /// A number from 0 to limit - 1.
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  }

 private:
  static std::uint64_t choose() {
    if (const char* given = std::getenv("STRATA_SEED")) return std::strtoull(given, nullptr, 0);
    return std::random_device{}();
  }

  std::uint64_t seed_;

 protected:
  std::mt19937_64 random;
};

}  // namespace strata
