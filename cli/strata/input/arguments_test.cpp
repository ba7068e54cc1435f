#include "input/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "input/usage_error.h"
#include "shared/refusal_test.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Arguments, AreCutAtTheFirstSeparatorOnly) {
  CommandLine line = split_at_separator({"compare", "--runs", "3", "--", "app", "--", "--runs"});
  EXPECT_THAT(line.options, ElementsAre("compare", "--runs", "3"));
  EXPECT_THAT(line.command, ElementsAre("app", "--", "--runs"));
  EXPECT_TRUE(line.has_separator);
}

TEST(Arguments, WithoutSeparatorThereIsNoCommand) {
  CommandLine line = split_at_separator({"run", "ls"});
  EXPECT_THAT(line.options, ElementsAre("run", "ls"));
  EXPECT_TRUE(line.command.empty());
  EXPECT_FALSE(line.has_separator);
}

TEST(Arguments, CountsAreWholeNumbersInTheirRange) {
  EXPECT_EQ(parse_count("--runs", "1", 1, 10), 1);
  EXPECT_EQ(parse_count("--runs", "10", 1, 10), 10);
  for (const char* bad : {"0", "11", "-1", "1x", "x", "", " 1", "1 ", "1.0", "+1", "0x1", "1e3",
                          "99999999999999999999"}) {
    std::string sentence = refused_with<UsageError>([&] { parse_count("--runs", bad, 1, 10); });
    EXPECT_EQ(sentence, std::string("--runs is '") + bad + "'; give a whole number from 1 to 10");
  }
}

TEST(Arguments, SecondsMayHaveFractions) {
  EXPECT_EQ(parse_seconds("--timeout", "0"), 0);
  EXPECT_EQ(parse_seconds("--timeout", "2.5"), 2.5);
  EXPECT_EQ(parse_seconds("--timeout", "31622400"), 31622400);
  for (const char* bad : {"-1", "nan", "inf", "1e300", "31622401", "2s", "", "1,5"}) {
    EXPECT_THAT(refused_with<UsageError>([&] { parse_seconds("--timeout", bad); }),
                HasSubstr("--timeout is '"))
        << bad;
  }
}

TEST(Arguments, SharesLieBetweenZeroAndOne) {
  EXPECT_EQ(parse_share("--time", "0"), 0);
  EXPECT_EQ(parse_share("--time", "0.05"), 0.05);
  EXPECT_EQ(parse_share("--time", "1"), 1);
  for (const char* bad : {"-0.1", "1.1", "nan", "5%", ""}) {
    EXPECT_EQ(refused_with<UsageError>([&] { parse_share("--time", bad); }),
              std::string("--time is '") + bad + "'; give a number from 0 to 1, as in 0.05");
  }
}

TEST(Arguments, ListsHaveNoEmptyEntries) {
  EXPECT_THAT(split_list("--allocators", "a,b=c,d"), ElementsAre("a", "b=c", "d"));
  for (const char* bad : {"", ",", "a,", ",a", "a,,b"}) {
    EXPECT_THAT(refused_with<UsageError>([&] { split_list("--allocators", bad); }),
                HasSubstr("empty entry"))
        << bad;
  }
}

TEST(Arguments, NamesOfFunctionsKeepTheirOwnCommas) {
  EXPECT_THAT(split_names("--skip", "xmalloc,n::xalloc<int, f(a, b)>,last"),
              ElementsAre("xmalloc", "n::xalloc<int, f(a, b)>", "last"));
  EXPECT_THAT(split_names("--skip", "a::operator<<,b::operator->,c::operator()<d, e>,g"),
              ElementsAre("a::operator<<", "b::operator->", "c::operator()<d, e>", "g"));
  EXPECT_THAT(split_names("--skip", "operator[],operator(),operator<=>"),
              ElementsAre("operator[]", "operator()", "operator<=>"));
  EXPECT_THAT(split_names("--skip", "odd>,b"), ElementsAre("odd>", "b"));
  EXPECT_THAT(refused_with<UsageError>([] { split_names("--skip", "f<a, b>,"); }),
              HasSubstr("empty entry"));
}

TEST(Arguments, SettingsBecomeVariablesOfTheLibrary) {
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(parse_setting("--set", "checks=full"), Pair("STRATA_CHECKS", "full"));
  EXPECT_EQ(parse_setting("--set", "decay-ms=5"), Pair("STRATA_DECAY_MS", "5"));
  EXPECT_EQ(parse_setting("--set", "STRATA_CHECKS=full"), Pair("STRATA_CHECKS", "full"));
  EXPECT_EQ(parse_setting("--set", "a=b=c"), Pair("STRATA_A", "b=c"));
  EXPECT_EQ(parse_setting("--set", "a="), Pair("STRATA_A", ""));
  for (const char* bad : {"", "a", "=b", "a b=c", "ä=c"}) {
    EXPECT_THAT(refused_with<UsageError>([&] { parse_setting("--set", bad); }),
                HasSubstr("give name=value"))
        << bad;
  }
}

TEST(Arguments, SizesHaveUnitsAndBounds) {
  const auto parse = [](const char* text) { return parse_size("--size", text, 1024, 1 << 30); };
  EXPECT_EQ(parse("1024"), 1024);
  EXPECT_EQ(parse("2k"), 2048);
  EXPECT_EQ(parse("3M"), 3 << 20);
  EXPECT_EQ(parse("1g"), 1 << 30);
  for (const char* text :
       {"", "k", "1023", "-2k", "1.5k", "2kb", "1025m", "2g", "17179869184g", "-17179869183g"})
    EXPECT_THROW(parse(text), UsageError) << text;
}

std::string signal_refusal(const char* text) {
  return refused_with<UsageError>([&] { parse_signal("--on-signal", text); });
}

TEST(SignalName, IsANameWithOrWithoutSigOrANumber) {
  EXPECT_EQ(parse_signal("--on-signal", "USR2"), SIGUSR2);
  EXPECT_EQ(parse_signal("--on-signal", "SIGUSR2"), SIGUSR2);
  EXPECT_EQ(parse_signal("--on-signal", std::to_string(SIGUSR2)), SIGUSR2);
  EXPECT_EQ(parse_signal("--on-signal", std::to_string(SIGRTMAX)), SIGRTMAX);
}

TEST(SignalName, IsRefusedWhereNoProgramCouldHandleItAndGoOn) {
  for (const char* bad : {"", "NO", "usr2", "0", "-1", "65", "USR2 "}) {
    EXPECT_EQ(signal_refusal(bad), std::string("--on-signal: '") + bad +
                                       "' is not a signal; name one, as in --on-signal USR2");
  }
  for (const char* bad : {"KILL", "SIGSTOP", "9", "32"}) {
    EXPECT_EQ(signal_refusal(bad), std::string("--on-signal: no program can handle ") + bad +
                                       "; name another, as in --on-signal USR2");
  }
  for (const char* bad : {"SEGV", "SIGBUS", "4"}) {
    EXPECT_EQ(signal_refusal(bad),
              std::string("--on-signal: ") + bad +
                  " cannot be used: it is that of a fault; name another, as in --on-signal USR2");
  }
}

}  // namespace
}  // namespace strata::cli
