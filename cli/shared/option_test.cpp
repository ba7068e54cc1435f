#include "shared/option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "shared/scenario.h"

namespace strata::cell {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Scenario made_scenario() {
  return {
      .name = "made",
      .purpose = "which question",
      .origin = "somebody's",
      .fits = Fits::kHeaps,
      .options = {Option::count("smallest", 8, 1, 4096, "bytes", "of a block").at_most("largest"),
                  Option::count("largest", 64, 1, 1'000'000, "bytes", "of a block"),
                  Option::real("share", 0.5, 0, 1, "", "how much"),
                  Option::choice("mode", "a", {"a", "b"}, "which"), Option::sizes("mixed"),
                  Option::path("plan", "what to do"), Option::flag("alone", "one thread")},
      .shown = {"ops_per_s"},
      .takes_threads = false,
      .takes_seconds = false,
      .settle_s = 0.5,
      .is_listed = false};
}

const Option& option_of(const Scenario& scenario, const std::string& name) {
  const Option* option = scenario.option(name);
  if (option == nullptr) throw std::logic_error(name);
  return *option;
}

std::string refusal(const std::string& name, const std::string& text) {
  return option_of(made_scenario(), name).why_not(text);
}

TEST(Option, RefusesWhatIsOutOfRangeByName) {
  EXPECT_EQ(refusal("smallest", "0"), "--smallest is '0'; give a whole number from 1 to 4096");
  EXPECT_EQ(refusal("largest", "1000001"),
            "--largest is '1000001'; give a whole number from 1 to 1000000");
  EXPECT_THAT(refusal("smallest", "1x"), HasSubstr("--smallest is '1x'"));
  EXPECT_THAT(refusal("smallest", "99999999999999999999"), HasSubstr("whole number"));
  EXPECT_EQ(refusal("share", "1.5"), "--share is '1.5'; give a number from 0 to 1");
  EXPECT_THAT(refusal("share", "nan"), HasSubstr("give a number"));
  EXPECT_EQ(refusal("mode", "c"), "--mode is 'c'; give one of a, b");
  EXPECT_EQ(refusal("alone", "maybe"), "--alone is 'maybe'; give one of no, yes");
  EXPECT_EQ(refusal("smallest", "1024"), "");
  EXPECT_EQ(refusal("share", "0.25"), "");
  EXPECT_EQ(refusal("mode", "b"), "");
  EXPECT_EQ(refusal("plan", "/a/file/that/is/made/later"), "");
}

TEST(Option, ReadsAFileOfSizesBeforeAnythingRuns) {
  const std::string path = ::testing::TempDir() + "strata-option-sizes.csv";
  auto refusal_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    return refusal("size-dist", path);
  };
  EXPECT_EQ(refusal_of("bytes,weight\n64,1\n"), "");
  EXPECT_THAT(refusal_of("64,1\n64,1,1\n"), HasSubstr("--size-dist: line 2 of"));
  EXPECT_THAT(refusal_of(""), HasSubstr("--size-dist: there are no sizes in"));
  std::remove(path.c_str());
  EXPECT_NE(refusal("size-dist", ::testing::TempDir()), "");
  EXPECT_THAT(refusal("size-dist", path),
              HasSubstr("give one of fixed, mixed, pareto, or a file that can be read"));
}

TEST(Option, SaysInTheHelpWhatItTakes) {
  const Scenario scenario = made_scenario();
  EXPECT_EQ(option_of(scenario, "largest").value_name(), "bytes");
  EXPECT_EQ(option_of(scenario, "largest").range(), "default 64, 1 to 1000000 bytes");
  EXPECT_EQ(option_of(scenario, "share").value_name(), "N");
  EXPECT_EQ(option_of(scenario, "share").range(), "default 0.5, 0 to 1");
  EXPECT_EQ(option_of(scenario, "mode").value_name(), "a|b");
  EXPECT_EQ(option_of(scenario, "mode").range(), "default a");
  EXPECT_EQ(option_of(scenario, "size-dist").value_name(), "fixed|mixed|pareto|FILE");
  EXPECT_EQ(option_of(scenario, "plan").value_name(), "FILE");
  EXPECT_EQ(option_of(scenario, "alone").range(), "");
}

TEST(Scenario, CompletesItsOptionsInTheirOrder) {
  EXPECT_THAT(made_scenario().values({{"mode", "b"}, {"smallest", "16"}}),
              ElementsAre(Pair("smallest", "16"), Pair("largest", "64"), Pair("share", "0.5"),
                          Pair("mode", "b"), Pair("size-dist", "mixed"), Pair("plan", "none"),
                          Pair("alone", "no")));
}

TEST(Scenario, RefusesAnOptionAboveItsCeilingAndOneThatItDoesNotHave) {
  EXPECT_EQ(made_scenario().why_not({{"smallest", "65"}}), "--smallest 65 is above --largest 64");
  EXPECT_EQ(made_scenario().why_not({{"smallest", "65"}, {"largest", "65"}}), "");
  EXPECT_EQ(made_scenario().why_not({{"size", "65"}}), "made has no option --size");
  EXPECT_EQ(made_scenario().why_not({{"mode", "c"}}), refusal("mode", "c"));
}

TEST(Description, ComesBackFromItsTextAsItWas) {
  const Description written{
      {made_scenario(), {.name = "other", .purpose = "none"}},
      {{"pool", Fits::kBlocks, "1.0", "a pool"}, {"heap", Fits::kHeaps, "2.0", "a heap"}}};
  const Description read = Description::from_json(written.to_json());
  EXPECT_EQ(read.scenarios, written.scenarios);
  EXPECT_EQ(read.contenders, written.contenders);
}

}  // namespace
}  // namespace strata::cell
