#include "thread_cache/bin_demand.h"

#include <gtest/gtest.h>

#include <cstddef>

namespace strata {
namespace {

/// A bin that never gets room, unless a test says so.
struct BinDemandTest : ::testing::Test {
  using Load = BinDemand::Load;
  using Slow = BinDemand::Slow;
  static constexpr std::size_t kBytes = 4096;

  /// A slow call.
  /// \returns  whether it asked
  bool call(Slow slow) {
    demand.note(slow, has_bin);
    if (!demand.may_ask(has_bin)) return false;
    const Load load = has_bin ? demand.load_of(bytes) : Load::kUsual;
    if (demand.may_look()) demand.note_refused(load);
    return true;
  }
  /// So many of them alike.
  /// \returns  how many asked
  int call_in_a_row(Slow slow, int count) {
    int asked = 0;
    for (; count != 0; --count) asked += call(slow) ? 1 : 0;
    return asked;
  }
  /// Allocates batches and frees them; each takes so many calls, and so many again.
  int run_batches(int count, int calls) {
    int asked = 0;
    for (; count != 0; --count)
      asked += call_in_a_row(Slow::kDry, calls) + call_in_a_row(Slow::kOver, calls);
    return asked;
  }
  /// \returns  the first of so many calls that asks; 0 if none does
  int first_that_asks(Slow slow, int count) {
    for (int i = 1; i <= count; ++i) {
      if (call(slow)) return i;
    }
    return 0;
  }
  bool is_lasting() const { return demand.load_of(bytes) == Load::kLasting; }

  BinDemand demand;
  std::size_t bytes = kBytes;
  bool has_bin = true;
};

TEST_F(BinDemandTest, ABinAsksAtEachCallUntilItIsRefused) {
  for (const Slow slow : {Slow::kDry, Slow::kOver, Slow::kDry, Slow::kDry}) {
    demand.note(slow, true);
    EXPECT_TRUE(demand.may_ask(true));
    EXPECT_TRUE(demand.may_look());
    demand.note_grown(demand.load_of(kBytes));
  }
  EXPECT_TRUE(call(Slow::kDry));
  EXPECT_EQ(run_batches(7, 3), 0);
  demand.note_shrunk();
  EXPECT_TRUE(call(Slow::kDry));
}

TEST_F(BinDemandTest, ABinWithRoomAgainMayAskAgain) {
  call(Slow::kDry);
  demand.note_grown(Load::kUsual);
  EXPECT_TRUE(call(Slow::kDry));
}

/// A batch makes three calls of each kind; four of the six are repeats.
TEST_F(BinDemandTest, BatchesMuchLargerThanTheBinAreALastingLoadAfterFiftyRepeats) {
  call(Slow::kOver);
  EXPECT_EQ(run_batches(12, 3), 0);
  EXPECT_EQ(call_in_a_row(Slow::kDry, 2), 0);
  EXPECT_FALSE(is_lasting()) << "49 repeats";
  EXPECT_FALSE(call(Slow::kDry)) << "it is much larger: the third call in a row";
  EXPECT_TRUE(is_lasting());
  EXPECT_FALSE(demand.is_pressing());
}

TEST_F(BinDemandTest, ALastingLoadPressesAfterFortyNineMore) {
  call(Slow::kOver);
  EXPECT_EQ(run_batches(24, 3), 0);
  EXPECT_EQ(call_in_a_row(Slow::kDry, 3), 0);
  EXPECT_EQ(call_in_a_row(Slow::kOver, 1), 0);
  EXPECT_TRUE(is_lasting()) << "98 repeats";
  demand.note(Slow::kOver, true);
  EXPECT_TRUE(demand.is_pressing());
  EXPECT_TRUE(demand.may_ask(true));
  EXPECT_TRUE(demand.may_look());
  demand.note_grown(demand.load_of(kBytes));
  EXPECT_TRUE(demand.is_pressing()) << "it goes on as it fits better";
  EXPECT_TRUE(call(Slow::kOver)) << "but is refused";
  EXPECT_TRUE(is_lasting());
  EXPECT_FALSE(demand.is_pressing());
  EXPECT_EQ(run_batches(12, 3), 0) << "48 more";
  EXPECT_EQ(first_that_asks(Slow::kDry, 3), 2);
}

TEST_F(BinDemandTest, BatchesALittleLargerThanTheBinAskAsSoonAsTheirLoadIsLasting) {
  call(Slow::kOver);
  EXPECT_EQ(run_batches(24, 2), 0);
  EXPECT_EQ(call_in_a_row(Slow::kDry, 2), 0);
  EXPECT_FALSE(is_lasting()) << "49 repeats";
  EXPECT_FALSE(call(Slow::kOver));
  demand.note(Slow::kOver, true);
  EXPECT_TRUE(is_lasting());
  EXPECT_TRUE(demand.may_ask(true));
  EXPECT_TRUE(demand.may_look());
  demand.note_refused(Load::kLasting);
  EXPECT_EQ(run_batches(24, 2), 0) << "once only";
  EXPECT_EQ(first_that_asks(Slow::kDry, 2), 2) << "49 more";
}

TEST_F(BinDemandTest, OfALongRowSevenRepeatsCount) {
  call(Slow::kOver);
  EXPECT_EQ(run_batches(3, 1000), 0);
  EXPECT_EQ(call_in_a_row(Slow::kDry, 1000), 0);
  EXPECT_FALSE(call(Slow::kOver));
  EXPECT_FALSE(is_lasting()) << "49 repeats";
  EXPECT_TRUE(call(Slow::kOver));
  EXPECT_TRUE(is_lasting());
}

TEST_F(BinDemandTest, ARowOfOneStartsTheCountAgain) {
  call(Slow::kOver);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(call_in_a_row(Slow::kDry, 5), 0);
    EXPECT_EQ(call_in_a_row(Slow::kOver, 1), 0);
  }
  EXPECT_FALSE(is_lasting());
  EXPECT_EQ(run_batches(13, 3), 0);
  EXPECT_TRUE(is_lasting());
  EXPECT_EQ(call_in_a_row(Slow::kDry, 1), 0);
  EXPECT_EQ(call_in_a_row(Slow::kOver, 1), 0);
  EXPECT_FALSE(is_lasting()) << "nor is it one any longer";
}

TEST_F(BinDemandTest, TheLoadOfSmallObjectsIsNeverALastingOne) {
  bytes = 240;
  call(Slow::kOver);
  EXPECT_EQ(run_batches(20, 3), 0);
  EXPECT_FALSE(is_lasting());
  bytes = 256;
  EXPECT_TRUE(is_lasting());
  bytes = 240;
  EXPECT_EQ(run_batches(4, 3), 0);
  EXPECT_EQ(first_that_asks(Slow::kDry, 5), 4);
  EXPECT_FALSE(demand.may_look()) << "it was refused, and starts again";
  EXPECT_EQ(run_batches(12, 3), 0);
}

TEST_F(BinDemandTest, AClassWithoutABinAsksAtEveryEighthCallAndMayLookAfterFiftyMore) {
  has_bin = false;
  EXPECT_TRUE(call(Slow::kDry));
  EXPECT_EQ(first_that_asks(Slow::kOver, 100), 7);
  EXPECT_FALSE(demand.may_look());
  for (int call = 16; call < 50; call += 8) {
    EXPECT_EQ(first_that_asks(Slow::kDry, 100), 8);
    EXPECT_FALSE(demand.may_look());
  }
  EXPECT_EQ(first_that_asks(Slow::kDry, 100), 8) << "the fifty-sixth";
  EXPECT_FALSE(demand.may_look()) << "it did, and starts again";
  EXPECT_EQ(first_that_asks(Slow::kOver, 100), 7);
}

TEST_F(BinDemandTest, AThreadSeemsOnlyToFreeFromTheThirdOverflowInARowOn) {
  call_in_a_row(Slow::kOver, 2);
  EXPECT_FALSE(demand.only_frees());
  call(Slow::kOver);
  EXPECT_TRUE(demand.only_frees());
  call_in_a_row(Slow::kOver, 1000);
  EXPECT_TRUE(demand.only_frees());
  call_in_a_row(Slow::kDry, 10);
  EXPECT_FALSE(demand.only_frees());
  call(Slow::kOver);
  EXPECT_FALSE(demand.only_frees());
}

TEST_F(BinDemandTest, ABinIsIdleUntilItsNextSlowCall) {
  EXPECT_TRUE(demand.is_idle());
  call(Slow::kOver);
  EXPECT_FALSE(demand.is_idle());
  demand.forget_calls();
  EXPECT_TRUE(demand.is_idle());
  EXPECT_FALSE(call(Slow::kOver)) << "that it was refused is not forgotten";
  EXPECT_FALSE(demand.is_idle());
}

TEST_F(BinDemandTest, ARowThatIsForgottenDoesNotStartTheCountAgain) {
  call(Slow::kOver);
  EXPECT_EQ(run_batches(13, 3), 0);
  EXPECT_EQ(call_in_a_row(Slow::kDry, 1), 0);
  demand.forget_calls();
  EXPECT_EQ(call_in_a_row(Slow::kOver, 1), 0);
  EXPECT_TRUE(is_lasting());
}

}  // namespace
}  // namespace strata
