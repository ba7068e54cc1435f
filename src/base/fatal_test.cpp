#include "base/fatal.h"

#include <gtest/gtest.h>

#include <csignal>

#include "os/emulation.h"

namespace strata {
namespace {

TEST(FatalDeathTest, SaysOneSentenceAndAborts) {
  EXPECT_EXIT(fatal("the sky is falling"), ::testing::KilledBySignal(SIGABRT),
              os::said_only("strata: the sky is falling\n"));
}

TEST(FatalDeathTest, NamesTheAddress) {
  const void* address = reinterpret_cast<const void*>(0xabc0);
  EXPECT_EXIT(fatal_pointer("double free of ", address, ": it is already free"),
              ::testing::KilledBySignal(SIGABRT),
              os::said_only("strata: double free of 0xabc0: it is already free\n"));
}

TEST(FatalDeathTest, AnInvariantDiesWithItsSentenceInEveryBuild) {
  EXPECT_DEATH(STRATA_INVARIANT(1 + 1 == 3, "one and one is not three"),
               os::said_only("strata: internal error, please report: one and one is not three\n"));
  STRATA_INVARIANT(1 + 1 == 2, "never said");
}

#ifdef NDEBUG
TEST(Fatal, ACheckOfOursIsNotEvaluatedInARelease) {
  int evaluations = 0;
  STRATA_DCHECK(++evaluations != 0);
  EXPECT_EQ(evaluations, 0);
}
#else
TEST(FatalDeathTest, ACheckOfOursNamesItsConditionAndPlaceFromTheRootOfTheProject) {
  EXPECT_DEATH(STRATA_DCHECK(1 + 1 == 3),
               os::said_only("strata: internal error, please report: 1 \\+ 1 == 3 does not hold at "
                             "src/base/fatal_test.cpp:[0-9]+\n"));
  STRATA_DCHECK(1 + 1 == 2);
}
#endif

}  // namespace
}  // namespace strata
