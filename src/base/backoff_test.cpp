#include "base/backoff.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace strata {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

TEST(Backoff, IsOffUntilAnAttemptWasInVain) {
  const Backoff backoff;
  EXPECT_FALSE(backoff.is_on(0));
  EXPECT_FALSE(backoff.is_on(UINT64_MAX));
}

TEST(Backoff, LastsAMillisecondAfterAShortAttempt) {
  Backoff backoff;
  backoff.begin(500 * kMs, 1);
  EXPECT_TRUE(backoff.is_on(501 * kMs - 1));
  EXPECT_FALSE(backoff.is_on(501 * kMs));
}

TEST(Backoff, LastsEightTimesAsLongAsTheAttempt) {
  Backoff backoff;
  backoff.begin(500 * kMs, 3 * kMs);
  EXPECT_TRUE(backoff.is_on(524 * kMs - 1));
  EXPECT_FALSE(backoff.is_on(524 * kMs));
}

TEST(Backoff, EndsThoughTheProcessWasStoppedDuringTheAttempt) {
  Backoff backoff;
  backoff.begin(500 * kMs, 3'600'000 * kMs);
  EXPECT_TRUE(backoff.is_on(10'500 * kMs - 1));
  EXPECT_FALSE(backoff.is_on(10'500 * kMs));
}

TEST(Backoff, BeginsAnewWithEachAttempt) {
  Backoff backoff;
  backoff.begin(0, 100 * kMs);
  backoff.begin(500 * kMs, kMs);
  EXPECT_TRUE(backoff.is_on(507 * kMs));
  EXPECT_FALSE(backoff.is_on(508 * kMs));
}

}  // namespace
}  // namespace strata
