#include "os/environment.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include <cstdint>
#include <cstring>
#include <set>

extern "C" char** environ;

namespace strata::os {
namespace {

TEST(Environment, FindsEnvironmentVariablesByTheirWholeName) {
  setenv("STRATA_TEST_NAME", "value=with=equals", 1);
  setenv("STRATA_TEST_NAME_LONGER", "other", 1);
  setenv("STRATA_TEST_EMPTY", "", 1);
  EXPECT_STREQ(environment_variable("STRATA_TEST_NAME"), "value=with=equals");
  EXPECT_STREQ(environment_variable("STRATA_TEST_NAME_LONGER"), "other");
  EXPECT_STREQ(environment_variable("STRATA_TEST_EMPTY"), "");
  EXPECT_EQ(environment_variable("STRATA_TEST_NAM"), nullptr);
  EXPECT_EQ(environment_variable("STRATA_TEST_MISSING"), nullptr);
}

TEST(Environment, ListsTheEnvironmentToItsEnd) {
  setenv("STRATA_TEST_LISTED", "1", 1);
  bool found = false;
  std::size_t count = 0;
  for (; const char* entry = environment_entry(count); ++count) {
    found |= std::strcmp(entry, "STRATA_TEST_LISTED=1") == 0;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(environ[count], nullptr);
}

TEST(Environment, IsAsTheProcessBeganWithItBeforeTheCLibraryHasBegun) {
#ifndef __GLIBC__
  GTEST_SKIP() << "it begins first";
#endif
  // In environ, the first entry stays where the kernel has put it until somebody changes it.
  const char* const first = environ[0];
  setenv("STRATA_TEST_SET_LATER", "1", 1);
  char** kept = environ;
  char* const name = program_invocation_short_name;
  char none[] = "";
  environ = nullptr;
  program_invocation_short_name = none;
  EXPECT_FALSE(has_environment());
  EXPECT_EQ(environment_entry(0), first);
  EXPECT_EQ(environment_variable("STRATA_TEST_SET_LATER"), nullptr);
  program_invocation_short_name = name;
  EXPECT_EQ(environment_entry(0), nullptr) << "the program has cleared it";
  environ = kept;
  EXPECT_TRUE(has_environment());
  unsetenv("STRATA_TEST_SET_LATER");
}

TEST(Environment, AnEmptyEnvironmentHasNoEntries) {
  char* none[] = {nullptr};
  char** kept = environ;
  environ = none;
  EXPECT_EQ(environment_entry(0), nullptr);
  EXPECT_EQ(environment_variable("PATH"), nullptr);
  EXPECT_TRUE(has_environment());
  environ = kept;
}

TEST(Environment, TheSeedDependsOnEachRandomByteThatTheKernelGives) {
  auto* const random = reinterpret_cast<unsigned char*>(getauxval(AT_RANDOM));
  ASSERT_NE(random, nullptr);
  constexpr std::size_t kBytes = 16;
  unsigned char kept[kBytes];
  std::memcpy(kept, random, kBytes);
  for (const int all : {0, 0xff}) {
    std::memset(random, all, kBytes);
    std::set<std::uint64_t> seeds = {random_seed()};
    for (std::size_t i = 0; i < kBytes; ++i) {
      random[i] ^= 1;
      seeds.insert(random_seed());
      random[i] ^= 1;
    }
    EXPECT_EQ(seeds.size(), 1 + kBytes);
  }
  std::memcpy(random, kept, kBytes);
}

}  // namespace
}  // namespace strata::os
