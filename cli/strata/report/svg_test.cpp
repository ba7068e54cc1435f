#include "report/svg.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A drawing of two marks, as gnuplot writes it but for its head; `rest` is what its version writes
/// behind the name of a plot.
std::string drawing(const char* rest) {
  std::string plots;
  for (int i = 1; i <= 3; ++i) {
    plots += fmt::format("\t<g id=\"p_plot_{0}\" {1}><title>p_plot_{0}</title>\n{2}\t</g>\n", i,
                         rest, i == 1 ? "" : "<g fill=\"none\"><path d='M1,2 L3,4'/></g>\n");
  }
  return "<svg><defs></defs>\n<g>" + plots + "</g></svg>";
}

TEST(Svg, MarksHaveTheirSeriesAndTooltipInTheDrawingsOfEachVersion) {
  Plot plot;
  plot.id = "speed";
  plot.marks = {{Mark::Kind::kLine, 2, {}, "strata: 1 ns"},
                {Mark::Kind::kWhisk, kNoSeries, {}, ""}};
  const std::string old = tidy_svg(drawing(""), plot);
  EXPECT_THAT(old, HasSubstr("<g class=\"m\" data-series=\"2\"><title>strata: 1 ns</title>"));
  EXPECT_THAT(old, HasSubstr("<g class=\"m\">"));
  EXPECT_THAT(old, Not(HasSubstr("p_plot")));
  EXPECT_EQ(tidy_svg(drawing(" fill=\"none\""), plot), old) << "from gnuplot 6.0 on";
}

}  // namespace
}  // namespace strata::cli
