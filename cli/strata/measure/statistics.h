#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace strata::cli {

/// A summary of repeated measurements: the middle, and how far they spread.
struct Summary {
  double median = 0;  ///< of an even count, the mean of the two in the middle
  double min = 0;
  double max = 0;
  std::size_t n = 0;

  /// The whole range as a share of the median; 0 if the median is 0.
  double spread() const noexcept { return median != 0 ? (max - min) / median : 0; }
};

/// \returns  All zero for no samples.
Summary summarize(std::vector<double> samples);

/// How many times as much one series is as another, run by run.
struct Ratio {
  /// The median of the ratios; of an even count, the geometric mean of the two in the middle, so
  /// that turning the series round turns the ratio round. If one of them is 0, which cannot be
  /// turned round, their arithmetic mean: half of the runs do not make it 0.
  double ratio = 0;
  /// The interval that holds the true median in at least 95% of all measurements; nothing for fewer
  /// than six runs: it lies outside the range of five in 1 of 16.
  std::optional<double> low;
  std::optional<double> high;
  std::size_t n = 0;
};

/// The ratios of what was measured in the same round, so that a slow minute of the machine, which
/// falls on both, falls out; where one series is longer, its rest is left out.
/// \returns  Nothing if there is no round, or a base of 0 among them.
/// \source   W. R. Thompson, "On Confidence Ranges for the Median" (1936): an interval between two
///           of the ratios in their order. Each lies below the true median as often as above it,
///           whatever their distribution, so that how many do is binomial.
std::optional<Ratio> ratio_of(const std::vector<double>& values, const std::vector<double>& bases);

}  // namespace strata::cli
