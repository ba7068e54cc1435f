#include "recorder/thread_numbers.h"

#include <gtest/gtest.h>

namespace strata::recorder {
namespace {

TEST(ThreadNumbers, GivesTheLastOneThatATraceHasToAllThatComeLater) {
  ThreadNumbers numbers;
  for (std::uint32_t i = 0; i < trace::kMostThreads; ++i) ASSERT_EQ(numbers.take(), i);
  EXPECT_EQ(numbers.take(), trace::kMostThreads - 1);
  EXPECT_EQ(numbers.take(), trace::kMostThreads - 1);
}

}  // namespace
}  // namespace strata::recorder
