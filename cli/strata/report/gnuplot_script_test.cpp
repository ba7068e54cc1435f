#include "report/gnuplot_script.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string script_of(const Plot& plot, Medium medium = Medium::kSvg) {
  return gnuplot_script(plot, std::vector<SeriesStyle>(3), medium, "out");
}

TEST(GnuplotScript, TextCanSayNothingButItself) {
  EXPECT_EQ(gnuplot_quoted("it's `date` \"x\"\n$y"), "'it''s `date` \"x\" $y'");
  EXPECT_EQ(gnuplot_quoted("'quick' run"), "\"'\".'quick'' run'");
  EXPECT_EQ(gnuplot_quoted("''it's"), "\"''\".'it''s'");
  EXPECT_EQ(gnuplot_quoted("'"), "\"'\".''");
}

TEST(GnuplotScript, ALegendHasEveryNameInsideThePicture) {
  Plot plot;
  plot.id = "x";
  plot.title = "title";
  plot.needs_legend = true;
  std::vector<SeriesStyle> styles(12);
  for (int i = 0; i < 12; ++i) {
    plot.marks.push_back(
        {Mark::Kind::kDots, i, {{1, 1}}, fmt::format("a-contender-of-length-{}", i)});
  }
  const std::string script = gnuplot_script(plot, styles, Medium::kPng, "x.png");
  std::set<std::string> places;
  for (const Mark& mark : plot.marks) {
    std::size_t at = script.find("set label '" + mark.tip + "' at screen ");
    ASSERT_NE(at, std::string::npos) << mark.tip;
    std::string place = script.substr(script.find("screen", at), 32);
    EXPECT_TRUE(places.insert(place.substr(0, place.find(" left"))).second) << place;
    EXPECT_LT(std::stod(place.substr(7)), 0.65);
  }
  EXPECT_THAT(script, Not(HasSubstr("\nset key")));
}

TEST(GnuplotScript, ATickIsNoFormat) {
  Plot plot;
  plot.y.ticks = {{0.5, "50%"}};
  EXPECT_THAT(script_of(plot), HasSubstr("'50%%' 0.5"));
}

TEST(GnuplotScript, AnAxisWithoutTicksHasNone) {
  Plot plot;
  plot.y.ticks = {{0.5, "x"}};
  EXPECT_THAT(script_of(plot), HasSubstr("unset xtics\n"));
  EXPECT_THAT(script_of(plot), HasSubstr("set ytics nomirror ('x' 0.5)\n"));
}

TEST(GnuplotScript, WhatIsNotANumberInterruptsALine) {
  Plot plot;
  const double gap = std::numeric_limits<double>::quiet_NaN();
  plot.marks = {{Mark::Kind::kLine, 0, {{1, 2}, {gap, gap}, {3, 4}}, ""}};
  EXPECT_THAT(script_of(plot), HasSubstr("$d0 << EOD\n1 2\n\n3 4\nEOD\n"));
}

TEST(GnuplotScript, ABoxIsDrawnFromCornerToCorner) {
  Plot plot;
  plot.marks = {{Mark::Kind::kBox, 0, {{1, 2}, {3, 5}}, ""}};
  EXPECT_THAT(script_of(plot), HasSubstr("$d0 << EOD\n1 2 1 3 2 5\nEOD\n"));
}

TEST(GnuplotScript, ASecondMeasurementIsDashedInTheSameColour) {
  Plot plot;
  plot.marks = {{Mark::Kind::kLine, 0, {{1, 2}}, ""}, {Mark::Kind::kLine, 1, {{1, 2}}, ""}};
  std::vector<SeriesStyle> styles(2);
  styles[0].colour = styles[1].colour = 3;
  styles[1].label = 1;
  const std::string script = gnuplot_script(plot, styles, Medium::kSvg, "out");
  const std::string colour = placeholder_colour(ColourRole::kSeries, 3);
  EXPECT_THAT(script, HasSubstr("$d0 with lines linewidth 2 dashtype 1 linecolor rgb '" + colour));
  EXPECT_THAT(script, HasSubstr("$d1 with lines linewidth 2 dashtype 2 linecolor rgb '" + colour));
}

TEST(GnuplotScript, APictureHasItsTitleAndAPageHasItsOwn) {
  Plot plot;
  plot.title = "strata is fastest";
  EXPECT_THAT(script_of(plot, Medium::kPng), HasSubstr("set label 'strata is fastest' at screen"));
  EXPECT_THAT(script_of(plot, Medium::kPng), HasSubstr("set terminal pngcairo"));
  EXPECT_THAT(script_of(plot, Medium::kSvg), Not(HasSubstr("strata is fastest")));
  EXPECT_THAT(script_of(plot, Medium::kSvg), HasSubstr("set terminal svg"));
}

}  // namespace
}  // namespace strata::cli
