#include "os/resources.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstring>
#include <thread>

#include "os/emulation.h"
#include "os/page_source.h"

namespace strata::os {
namespace {

TEST(Resources, ResidentBytesFollowWhatIsTouchedAndGivenBack) {
  constexpr std::size_t kBytes = 64u << 20;
  constexpr std::size_t kSlack = 4u << 20;  // the test runner's own pages, the kernel's rounding
  void* p = kernel_pages().map(kBytes);
  ASSERT_NE(p, nullptr);
  const std::size_t untouched = resident_bytes();
  ASSERT_GT(untouched, 0u);
  std::memset(p, 'x', kBytes);
  const std::size_t touched = resident_bytes();
  EXPECT_GE(touched + kSlack, untouched + kBytes);
  ASSERT_TRUE(kernel_pages().decommit(p, kBytes));
  EXPECT_LE(resident_bytes() + kBytes, touched + kSlack);
  kernel_pages().unmap(p, kBytes);
}

TEST(Resources, TheMostThatWasResidentStaysWhenItGoesBack) {
  if (kIsEmulated) GTEST_SKIP() << "the emulator's memory counts as its own";
  if (prctl(PR_GET_SECCOMP) != 0) GTEST_SKIP() << "a filter may be there";
  // More than any test before may have had.
  const std::size_t bytes = most_resident_bytes();
  ASSERT_NE(bytes, 0u);
  void* const p = kernel_pages().map(bytes);
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', bytes);
  const std::size_t most = most_resident_bytes();
  EXPECT_GT(most, bytes);
  ASSERT_TRUE(kernel_pages().decommit(p, bytes));
  EXPECT_GE(most_resident_bytes(), most);
  kernel_pages().unmap(p, bytes);
}

TEST(Resources, CountsTheProcessorsItMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(processor_count(), static_cast<unsigned>(CPU_COUNT(&allowed)));
  std::thread pinned([&] {
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(processor_count(), 1u);
  });
  pinned.join();
}

TEST(Resources, KnowsHowMuchAddressSpaceItMayHave) {
  if (kIsEmulated)
    GTEST_SKIP() << "the emulator sets no limit of addresses, which would be its own";
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = std::size_t{1} << 45;  // more than sanitizers reserve
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_EQ(address_space_limit_bytes(), std::size_t{1} << 45);
  EXPECT_TRUE(is_beyond_machine((std::size_t{1} << 45) + 1));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(address_space_limit_bytes(), SIZE_MAX);
  }
}

TEST(Resources, KnowsWhatIsBeyondTheMachine) {
  EXPECT_FALSE(is_beyond_machine(1 << 20));
  EXPECT_FALSE(is_beyond_machine(resident_bytes()));
  EXPECT_TRUE(is_beyond_machine(SIZE_MAX));
  EXPECT_TRUE(is_beyond_machine(std::size_t{1} << 55));
}

}  // namespace
}  // namespace strata::os
