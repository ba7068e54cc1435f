#include "malloc/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace strata {
namespace {

const OptionRow& row(std::string_view name) {
  for (const OptionRow& candidate : option_table()) {
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

/// Sets one variable for as long as it lives.
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

bool equal(const Options& a, const Options& b) {
  for (const OptionRow& each : option_table()) {
    if (each.get(a) != each.get(b)) return false;
  }
  return true;
}

TEST(Options, EveryRowHasANameASentenceAndARangeThatHoldsItsDefault) {
  for (const OptionRow& each : option_table()) {
    EXPECT_FALSE(each.name.empty());
    EXPECT_FALSE(each.sentence.empty());
    const std::size_t value = each.get(Options{});
    if (each.unit == OptionRow::Unit::kChoice) {
      EXPECT_LT(value, choices_of(each).size()) << each.name;
    } else {
      EXPECT_LE(each.least, value) << each.name;
      EXPECT_LE(value, each.most) << each.name;
    }
  }
}

TEST(Options, EveryRowSetsItsOwnFieldAndNoOther) {
  for (const OptionRow& each : option_table()) {
    Options options;
    const std::size_t other = each.get(options) == 1 ? 0 : 1;
    each.set(options, other);
    EXPECT_EQ(each.get(options), other) << each.name;
    for (const OptionRow& another : option_table()) {
      if (another.name != each.name) {
        EXPECT_EQ(another.get(options), another.get(Options{})) << another.name;
      }
    }
  }
}

TEST(Options, EveryWordOfAChoiceIsUnderstood) {
  for (const OptionRow& each : option_table()) {
    if (each.unit != OptionRow::Unit::kChoice) continue;
    std::size_t index = 0;
    for (const std::string& word : choices_of(each)) {
      Options options;
      EXPECT_TRUE(set_option(each, word, options)) << word;
      EXPECT_EQ(each.get(options), index++);
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
}

TEST(Options, NumbersAreUnderstoodToTheEndsOfTheirRange) {
  for (const OptionRow& each : option_table()) {
    if (each.unit == OptionRow::Unit::kChoice) continue;
    Options options;
    for (std::size_t value : {each.least, each.most}) {
      EXPECT_TRUE(set_option(each, std::to_string(value), options)) << each.name;
      EXPECT_EQ(each.get(options), value);
    }
    const std::size_t before = each.get(options);
    EXPECT_FALSE(set_option(each, std::to_string(each.most + 1), options)) << each.name;
    if (each.least > 0) {
      EXPECT_FALSE(set_option(each, std::to_string(each.least - 1), options)) << each.name;
    }
    EXPECT_EQ(each.get(options), before);
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

TEST(Options, WhatDoesNotFitIsRefusedAndChangesNothing) {
  for (const OptionRow& each : option_table()) {
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
                                  "basic|full",
                                  "|",
                                  "Full",
                                  "FULL",
                                  "fullx",
                                  "ful",
                                  "99999999999999999999999",
                                  "18446744073709551616",
                                  "17179869184g",
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
  for (const OptionRow& each : option_table()) {
    const std::string name = "STRATA_" + std::string(each.name);
    const Environment bad(name, "banana");
    Options options;
    const std::string said = read_and_capture(options);
    const std::string expected =
        "strata: warning: " + name + "=banana is not understood; " +
        (each.unit == OptionRow::Unit::kChoice
             ? "it is one of " + std::string(each.choices)
             : "it is a number from " + std::to_string(each.least) + " to " +
                   std::to_string(each.most) +
                   (each.unit == OptionRow::Unit::kBytes ? " bytes, k, m and g understood"
                                                         : " milliseconds")) +
        "; the default is used\n";
    EXPECT_EQ(said, expected);
    EXPECT_TRUE(equal(options, Options{}));
  }
}

TEST(ReadOptions, AnUnknownNameIsNamedTogetherWithTheNamesThereAre) {
  for (const char* name : {"STRATA_CHECK", "STRATA_", "STRATA_XCHECKS", "STRATA_CHECKS_",
                           "STRATA_checks", "STRATA_CACHE"}) {
    const Environment unknown(name, "full");
    Options options;
    const std::string said = read_and_capture(options);
    EXPECT_EQ(said.find("strata: warning: " + std::string(name) + " is no option; the options are"),
              0u)
        << said;
    for (const OptionRow& each : option_table())
      EXPECT_NE(said.find(" STRATA_" + std::string(each.name)), std::string::npos) << each.name;
    EXPECT_TRUE(equal(options, Options{}));
  }
}

TEST(ReadOptions, NamesOfOthersAreNotOurs) {
  const Environment a("XSTRATA_CHECKS", "full");
  const Environment b("STRATAGEM", "full");
  const Environment c("strata_checks", "full");
  Options options;
  EXPECT_EQ(read_and_capture(options), "");
  EXPECT_TRUE(equal(options, Options{}));
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
