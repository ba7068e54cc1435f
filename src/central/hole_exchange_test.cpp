#include "central/hole_exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>

namespace strata {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct HoleExchangeTest : ::testing::Test {
  HoleExchange exchange;
  std::size_t filled = 0;

  /// Returns 4 MiB of holes; then so many MiB are filled again.
  void turn(std::size_t filled_mib) {
    exchange.note_returned(3 * kMiB, filled);
    exchange.note_returned(kMiB, filled);
    filled += filled_mib * kMiB;
  }
  /// How many MiB of growth are ignored until some is due again.
  std::size_t ignored_mib() {
    std::size_t mib = 0;
    while (exchange.take_due(kMiB) == 0) ++mib;
    return mib;
  }
};

TEST_F(HoleExchangeTest, AllGrowthIsDueAtFirst) { EXPECT_EQ(exchange.take_due(12345), 12345u); }

TEST_F(HoleExchangeTest, AllGrowthIsDueWhereHolesStay) {
  for (int i = 0; i < 100; ++i) {
    turn(1);
    EXPECT_EQ(ignored_mib(), 0u);
  }
}

TEST_F(HoleExchangeTest, WhereHolesAreFilledAgainTwiceAsMuchPassesByEachTime) {
  turn(4);
  EXPECT_EQ(ignored_mib(), 0u) << "nothing was filled before";
  for (std::size_t mib = 8; mib <= 128; mib *= 2) {
    turn(4);
    EXPECT_EQ(ignored_mib(), mib);
  }
  for (int i = 0; i < 50; ++i) {
    turn(4);
    EXPECT_EQ(ignored_mib(), 128u) << "no more than that";
  }
}

TEST_F(HoleExchangeTest, APhaseIsJudgedWithThoseBefore) {
  for (int i = 0; i < 3; ++i) turn(0);
  filled += 12 * kMiB;
  turn(0);
  EXPECT_EQ(ignored_mib(), 8u);
  turn(0);
  EXPECT_EQ(ignored_mib(), 16u) << "this one's holes are not filled yet";
}

TEST_F(HoleExchangeTest, OtherPhasesAreNoticed) {
  for (int i = 0; i < 100; ++i) turn(4);
  ASSERT_EQ(ignored_mib(), 128u);
  std::size_t growth = 0;
  for (int i = 0; i < 3; ++i) {
    turn(0);
    growth += ignored_mib();
  }
  EXPECT_LE(growth, 400u);
  turn(0);
  EXPECT_EQ(ignored_mib(), 0u);
}

TEST_F(HoleExchangeTest, IsAsAtFirstOnceThereAreNoSpans) {
  for (int i = 0; i < 10; ++i) turn(4);
  exchange.forget(filled);
  EXPECT_EQ(ignored_mib(), 0u);
  turn(4);
  EXPECT_EQ(ignored_mib(), 0u) << "nothing was filled since";
}

TEST_F(HoleExchangeTest, WhatThreadsSayAtOnceIsBounded) {
  std::atomic<std::size_t> all{0};
  const auto work = [&] {
    for (int i = 0; i < 20'000; ++i) {
      exchange.note_returned(300'000, all.load());
      all += 290'000;
      exchange.take_due(100'000);
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_LE(ignored_mib(), 256u);
}

TEST_F(HoleExchangeTest, GrowthIsDueInPart) {
  turn(4);
  turn(0);
  EXPECT_EQ(exchange.take_due(7 * kMiB), 0u);
  EXPECT_EQ(exchange.take_due(3 * kMiB), 2 * kMiB);
  EXPECT_EQ(exchange.take_due(3 * kMiB), 3 * kMiB);
}

}  // namespace
}  // namespace strata
