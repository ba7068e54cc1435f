#include "malloc/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "os/environment.h"

namespace strata {
namespace {

OptionRow row(std::string_view name) {
  for (const OptionRow candidate : option_table()) {
    if (candidate.name == name) return candidate;
  }
  ADD_FAILURE() << "no option " << name;
  return option_table()[0];
}

std::vector<std::string> choices_of(const OptionRow& of) {
  std::vector<std::string> words(1);
  for (char c : of.choices) {
    if (c == '|') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

/// Sets one variable during its life.
class Environment {
 public:
  Environment(const std::string& name, const std::string& value) : name_(name) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() { unsetenv(name_.c_str()); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_;
};

std::string read_and_capture(Options& options) {
  unsetenv("STRATA_SEED");  // of the tests; no option of the malloc
  ::testing::internal::CaptureStderr();
  read_options(options);
  return ::testing::internal::GetCapturedStderr();
}

std::string value_of(const OptionRow& of, const Options& options) {
  TextWriter out;
  write_value(of, options, out);
  return std::string(out.view());
}

bool equal(const Options& a, const Options& b) {
  for (const OptionRow each : option_table()) {
    if (value_of(each, a) != value_of(each, b)) return false;
  }
  return true;
}

bool is_number(const OptionRow& of) {
  return of.unit != OptionRow::Unit::kChoice && of.unit != OptionRow::Unit::kText;
}

/// The upper end of a range as people write it.
std::string most_of(const OptionRow& of) {
  std::size_t most = of.most;
  if (of.unit != OptionRow::Unit::kBytes && of.unit != OptionRow::Unit::kLimit)
    return std::to_string(most);
  std::size_t suffix = 0;
  for (; suffix < 3 && most % 1024 == 0; ++suffix) most /= 1024;
  return std::to_string(most) + std::string("kmg").substr(suffix - 1, 1);
}

/// A value other than the option's default.
std::string other_value(const OptionRow& of) {
  if (of.unit == OptionRow::Unit::kText) return "elsewhere";
  const std::size_t now = of.value_of(Options{});
  if (of.unit == OptionRow::Unit::kChoice) return choices_of(of)[now == 1 ? 0 : 1];
  return std::to_string(now == of.least ? of.least + 1 : of.least);
}

TEST(Options, EveryRowHasANameASentenceAndARangeThatHoldsItsDefault) {
  for (const OptionRow each : option_table()) {
    EXPECT_FALSE(each.name.empty());
    EXPECT_FALSE(each.sentence.empty());
    if (each.unit == OptionRow::Unit::kText) continue;
    const std::size_t value = each.value_of(Options{});
    if (each.unit == OptionRow::Unit::kChoice) {
      EXPECT_LT(value, choices_of(each).size()) << each.name;
    } else if (each.unit != OptionRow::Unit::kSeed) {
      EXPECT_LE(each.least, value) << each.name;
      EXPECT_LE(value, each.most) << each.name;
    }
  }
}

TEST(Options, EveryRowSetsItsOwnFieldAndNoOther) {
  for (const OptionRow each : option_table()) {
    const std::string other = other_value(each);
    Options options;
    ASSERT_TRUE(set_option(each, other, options)) << each.name;
    EXPECT_EQ(value_of(each, options), other) << each.name;
    for (const OptionRow another : option_table()) {
      if (another.name != each.name) {
        EXPECT_EQ(value_of(another, options), value_of(another, Options{})) << another.name;
      }
    }
  }
}

TEST(Options, WhatIsWrittenIsUnderstoodAgain) {
  for (const OptionRow each : option_table()) {
    std::vector<std::string> texts{other_value(each)};
    if (is_number(each)) {
      texts.push_back(std::to_string(each.most));
      texts.push_back(std::to_string(each.most - 1));
    }
    if (each.unit == OptionRow::Unit::kLimit) texts.push_back("80%");
    for (const std::string& text : texts) {
      Options options;
      ASSERT_TRUE(set_option(each, text, options)) << each.name << "=" << text;
      const std::string written = value_of(each, options);
      Options again;
      EXPECT_TRUE(set_option(each, written, again)) << each.name << "=" << written;
      EXPECT_TRUE(equal(options, again)) << each.name << "=" << written;
    }
  }
}

TEST(Options, ASeedIsOnOffOrANumber) {
  Options options;
  EXPECT_EQ(value_of(row("RANDOM"), options), "on");
  for (const char* text : {"off", "1", "4294967295", "on"}) {
    EXPECT_TRUE(set_option(row("RANDOM"), text, options)) << text;
    EXPECT_EQ(value_of(row("RANDOM"), options), text);
  }
  for (const char* text : {"", "0", "-1", "4294967296", "18446744073709551615", "On", "1k", "yes"})
    EXPECT_FALSE(set_option(row("RANDOM"), text, options)) << text;
  EXPECT_EQ(options.random, Options::kRandomOn);
  const Environment random("STRATA_RANDOM", "0");
  EXPECT_EQ(read_and_capture(options),
            "strata: warning: STRATA_RANDOM=0 is not understood; it is on, off or a number from 1 "
            "to 4294967295; the default is used\n");
}

TEST(Options, ASeedGivesTheSameRandomNumbersEachTimeAndChanceItsOwn) {
  EXPECT_EQ(seed_of(7), seed_of(7));
  EXPECT_NE(seed_of(7), seed_of(8));
  EXPECT_EQ(seed_of(Options::kRandomOn), os::random_seed());
  const Environment random("STRATA_RANDOM", "7");
  EXPECT_EQ(random_of_environment(), 7u);
}

TEST(Options, EveryWordOfAChoiceIsUnderstood) {
  for (const OptionRow each : option_table()) {
    if (each.unit != OptionRow::Unit::kChoice) continue;
    std::size_t index = 0;
    for (const std::string& word : choices_of(each)) {
      Options options;
      EXPECT_TRUE(set_option(each, word, options)) << word;
      EXPECT_EQ(each.value_of(options), index++);
    }
  }
}

TEST(Options, WordsMeanWhatTheySay) {
  Options options;
  EXPECT_TRUE(set_option(row("CHECKS"), "full", options));
  EXPECT_EQ(options.checks, Options::Checks::kFull);
  EXPECT_TRUE(set_option(row("STATS"), "exit", options));
  EXPECT_EQ(options.stats, Options::Stats::kExit);
  EXPECT_TRUE(set_option(row("HUGE_PAGES"), "never", options));
  EXPECT_EQ(options.huge_pages, HugePages::kNever);
  EXPECT_TRUE(set_option(row("HUGE_PAGES"), "always", options));
  EXPECT_EQ(options.huge_pages, HugePages::kAlways);
  EXPECT_TRUE(set_option(row("HUGE_PAGES"), "system", options));
  EXPECT_EQ(options.huge_pages, HugePages::kSystem);
}

TEST(Options, NumbersAreUnderstoodToTheEndsOfTheirRange) {
  for (const OptionRow each : option_table()) {
    if (!is_number(each)) continue;
    Options options;
    for (std::size_t value : {each.least, each.most}) {
      EXPECT_TRUE(set_option(each, std::to_string(value), options)) << each.name;
      EXPECT_EQ(each.value_of(options), value);
    }
    const std::size_t before = each.value_of(options);
    EXPECT_FALSE(set_option(each, std::to_string(each.most + 1), options)) << each.name;
    if (each.least > 0) {
      EXPECT_FALSE(set_option(each, std::to_string(each.least - 1), options)) << each.name;
    }
    EXPECT_EQ(each.value_of(options), before);
  }
}

TEST(Options, BytesMayHaveASuffix) {
  const struct {
    const char* text;
    std::size_t bytes;
  } cases[] = {{"4096", 4096},   {"3k", 3u << 10}, {"3K", 3u << 10},
               {"5m", 5u << 20}, {"5M", 5u << 20}, {"1g", 1u << 30},
               {"1G", 1u << 30}, {"0k", 0},        {"1024g", std::size_t{1} << 40}};
  for (const auto& each : cases) {
    Options options;
    EXPECT_TRUE(set_option(row("CACHE_BYTES"), each.text, options)) << each.text;
    EXPECT_EQ(options.cache_bytes, each.bytes) << each.text;
  }
}

TEST(Options, ALimitMayBeAShare) {
  Options options;
  EXPECT_TRUE(set_option(row("SOFT_LIMIT"), "80%", options));
  EXPECT_EQ(options.soft_limit, OptionRow::kShare | 80);
  EXPECT_TRUE(set_option(row("HARD_LIMIT"), "2g", options));
  EXPECT_EQ(options.hard_limit, std::size_t{2} << 30);
  for (const char* text : {"0%", "101%", "%", "-1%", "8 %", "80%%", "2g%", "1.5%"}) {
    Options unchanged;
    EXPECT_FALSE(set_option(row("SOFT_LIMIT"), text, unchanged)) << text;
    EXPECT_EQ(unchanged.soft_limit, 0u);
  }
}

TEST(Options, ATextIsAnythingThatIsNotEmpty) {
  Options options;
  EXPECT_TRUE(set_option(row("STATS_FILE"), "/tmp/a file", options));
  EXPECT_STREQ(options.stats_file, "/tmp/a file");
  EXPECT_FALSE(set_option(row("STATS_FILE"), "", options));
  EXPECT_FALSE(set_option(row("STATS_FILE"), std::string(4096, 'x'), options));
  EXPECT_STREQ(options.stats_file, "/tmp/a file");
}

TEST(Options, WhatDoesNotFitIsRefusedAndChangesNothing) {
  for (const OptionRow each : option_table()) {
    if (each.unit == OptionRow::Unit::kText) continue;
    for (std::string_view text : {"",
                                  " ",
                                  "1 ",
                                  " 1",
                                  "-1",
                                  "+1",
                                  "0x10",
                                  "1.5",
                                  "k",
                                  "kk",
                                  "1kb",
                                  "1kk",
                                  "1t",
                                  "none",
                                  "basic|frees|full",
                                  "|",
                                  "Full",
                                  "FULL",
                                  "fullx",
                                  "ful",
                                  "99999999999999999999999",
                                  "18446744073709551616",
                                  "18446744073709551621",
                                  "17179869184g",
                                  "9999999999g",
                                  "9223372036854775858",
                                  "18446744073709551615k"}) {
      Options options;
      EXPECT_FALSE(set_option(each, text, options)) << each.name << "=" << text;
      EXPECT_TRUE(equal(options, Options{})) << each.name << "=" << text;
    }
  }
  Options options;
  EXPECT_FALSE(set_option(row("RELEASE_DELAY_MS"), "1k", options));  // no bytes, no suffix
}

TEST(ReadOptions, NothingInTheEnvironmentIsNothingSaid) {
  Options options;
  EXPECT_EQ(read_and_capture(options), "");
  EXPECT_TRUE(equal(options, Options{}));
}

TEST(ReadOptions, SetsWhatIsThere) {
  const Environment checks("STRATA_CHECKS", "full");
  const Environment cache("STRATA_CACHE_BYTES", "2m");
  const Environment delay("STRATA_RELEASE_DELAY_MS", "0");
  Options options;
  EXPECT_EQ(read_and_capture(options), "");
  EXPECT_EQ(options.checks, Options::Checks::kFull);
  EXPECT_EQ(options.cache_bytes, std::size_t{2} << 20);
  EXPECT_EQ(options.release_delay_ms, 0u);
}

TEST(ReadOptions, ABadValueIsNamedInOneWarningAndTheDefaultStands) {
  for (const OptionRow each : option_table()) {
    const std::string name = "STRATA_" + std::string(each.name);
    const std::string value = each.unit == OptionRow::Unit::kText ? "" : "banana";
    const Environment bad(name, value);
    Options options;
    const std::string said = read_and_capture(options);
    std::string range = each.unit == OptionRow::Unit::kChoice ? "one of "
                        : is_number(each)                     ? "a number from "
                                                              : "a text of ";
    range += is_number(each) || each.unit == OptionRow::Unit::kText
                 ? std::to_string(each.least) + " to " + most_of(each)
                 : std::string(each.choices);
    if (each.unit == OptionRow::Unit::kSeed) range = "on, off or " + range;
    if (each.unit == OptionRow::Unit::kText) range += " characters";
    if (each.unit == OptionRow::Unit::kMilliseconds) range += " milliseconds";
    if (each.unit == OptionRow::Unit::kBytes || each.unit == OptionRow::Unit::kLimit)
      range += " bytes, k, m and g understood";
    if (each.unit == OptionRow::Unit::kLimit)
      range += ", or 1% to 100% of the memory of the container or, without one, of the machine";
    const std::string expected = "strata: warning: " + name + "=" + value +
                                 " is not understood; it is " + range + "; the default is used\n";
    EXPECT_EQ(said, expected);
    EXPECT_TRUE(equal(options, Options{}));
  }
}

TEST(ReadOptions, AnUnknownNameIsNamedTogetherWithTheNamesThereAre) {
  for (const char* name : {"STRATA_", "STRATA_CACHE", "STRATA_UNKNOWN",
                           "STRATA_A_NAME_OF_MORE_THAN_THIRTY_TWO_CHARACTERS"}) {
    const Environment unknown(name, "full");
    Options options;
    const std::string said = read_and_capture(options);
    EXPECT_EQ(
        said.find("strata: warning: " + std::string(name) + " is not an option; the options are"),
        0u)
        << said;
    for (const OptionRow each : option_table())
      EXPECT_NE(said.find(" STRATA_" + std::string(each.name)), std::string::npos) << each.name;
    EXPECT_TRUE(equal(options, Options{}));
  }
}

TEST(ReadOptions, AMisspeltNameIsToldTheOptionThatItMayMean) {
  const char* cases[][2] = {
      {"STRATA_CHECK", "CHECKS"},         {"STRATA_CHEKS", "CHECKS"},
      {"STRATA_XCHECKS", "CHECKS"},       {"STRATA_checks", "CHECKS"},
      {"STRATA_STAT", "STATS"},           {"STRATA_LAEKS", "LEAKS"},
      {"STRATA_HARDLIMIT", "HARD_LIMIT"}, {"STRATA_soft-limit", "SOFT_LIMIT"}};
  for (const auto& [name, meant] : cases) {
    const Environment unknown(name, "full");
    Options options;
    EXPECT_EQ(read_and_capture(options), "strata: warning: " + std::string(name) +
                                             " is not an option; did you mean STRATA_" + meant +
                                             "?\n");
    EXPECT_TRUE(equal(options, Options{}));
  }
}

TEST(ReadOptions, AWarningIsOneLineWhateverTheEnvironmentHolds) {
  const Environment value("STRATA_CHECKS", "a\nb\x1b[31m\x7f");
  const Environment name("STRATA_\nX\r", "1");
  Options options;
  const std::string said = read_and_capture(options);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2);
  EXPECT_NE(said.find("STRATA_CHECKS=a?b?[31m? is not"), std::string::npos) << said;
  EXPECT_NE(said.find("STRATA_?X? is not an option"), std::string::npos) << said;
}

TEST(ReadOptions, OfTwoEqualNamesTheFirstCounts) {
  char first[] = "STRATA_CACHE_BYTES=1m";
  char second[] = "STRATA_CACHE_BYTES=2m";
  char wrong[] = "STRATA_CACHE_BYTES=x";
  char* entries[] = {first, second, wrong, nullptr};
  char** const before = environ;
  environ = entries;
  Options options;
  ::testing::internal::CaptureStderr();
  read_options(options);
  const char* const told = option_in_environment(row("CACHE_BYTES"));
  environ = before;
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(options.cache_bytes, std::size_t{1} << 20);
  EXPECT_STREQ(told, "1m");
}

TEST(ReadOptions, HundredsOfWrongOptionsAreAFewWarnings) {
  std::deque<Environment> wrong;
  for (int i = 0; i < 300; ++i) wrong.emplace_back("STRATA_N" + std::to_string(i), "1");
  Options options;
  const std::string said = read_and_capture(options);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 9);
  EXPECT_NE(said.find("strata: warning: 292 more options are not understood"), std::string::npos);
}

TEST(ReadOptions, NamesOfOthersAreNotOurs) {
  const Environment a("XSTRATA_CHECKS", "full");
  const Environment b("STRATAGEM", "full");
  const Environment c("strata_checks", "full");
  Options options;
  EXPECT_EQ(read_and_capture(options), "");
  EXPECT_TRUE(equal(options, Options{}));
}

TEST(ReadOptions, NamesOfTheRecorderOfTheScriptsAndOfTheTestsAreNoMistakes) {
  const Environment file("STRATA_RECORD", "trace");
  const Environment stacks("STRATA_RECORD_STACKS", "64");
  const Environment bootstrap("STRATA_BOOTSTRAP", "off");
  const Environment fuzz("STRATA_FUZZ_CORPUS", "/tmp/corpus");
  const Environment tests("STRATA_SEED", "1");
  Options options;
  EXPECT_EQ(read_and_capture(options), "");
  EXPECT_TRUE(equal(options, Options{}));
  const Environment mistake("STRATA_RECORDS", "trace");
  EXPECT_NE(read_and_capture(options).find("STRATA_RECORDS is not an option"), std::string::npos);
}

TEST(ReadOptions, AMistakenNameIsNoOptionAndNoNameOfOthers) {
  EXPECT_EQ(mistaken_name_in("STRATA_CHEKS=full=x"), "STRATA_CHEKS");
  EXPECT_EQ(mistaken_name_in("STRATA_="), "STRATA_");
  for (const char* right : {"STRATA_CHECKS=wrong", "STRATA_SEED=1", "STRATA_RECORD_STACKS=0",
                            "STRATA_CHEKS", "STRATAGEM=1", "PATH=/bin", "=", ""})
    EXPECT_EQ(mistaken_name_in(right), "") << right;
}

TEST(ReadOptions, AValueWithoutEndIsCutInTheWarning) {
  const Environment endless("STRATA_CHECKS", std::string(100'000, 'x'));
  Options options;
  const std::string said = read_and_capture(options);
  EXPECT_LT(said.size(), 300u);
  EXPECT_EQ(said.find("strata: warning: STRATA_CHECKS=xxx"), 0u);
  EXPECT_EQ(said.back(), '\n');
}

}  // namespace
}  // namespace strata
