#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "self_test.h"

namespace {

TEST(Freestanding, SelfTestPassesOnThisMachine) { EXPECT_EQ(strata_self_test(), 0); }

TEST(Freestanding, SelfTestPassesWhileAnInterruptUsesTheSamePool) {
  // Here a thread is the interrupt. There is no thread-local memory: a thread's stack decides where
  // its searches start.
  std::atomic<bool> done{false};
  int interrupt_result = 0;
  std::thread interrupt([&] {
    while (!done.load() && interrupt_result == 0) interrupt_result = strata_self_test_interrupt();
  });
  EXPECT_EQ(strata_self_test(), 0);
  done.store(true);
  interrupt.join();
  EXPECT_EQ(interrupt_result, 0);
}

}  // namespace
