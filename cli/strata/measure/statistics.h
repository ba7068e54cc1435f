#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace strata::cli {

/// A summary of repeated measurements: median and spread.
struct Summary {
  double median = 0;  ///< of an even count, the mean of the two in the middle
  double min = 0;
  double max = 0;
  std::size_t n = 0;

  /// The range divided by the median; 0 if the median is 0.
  double spread() const noexcept { return median != 0 ? (max - min) / median : 0; }
};

/// \returns  All zero if there are no samples.
Summary summarize(std::vector<double> samples);

/// The ratio of one series to another, paired by run.
struct Ratio {
  /// The median of the ratios. For an even count, the geometric mean of the middle two, so that
  /// swapping the series inverts the ratio. If one of them is 0, and so has no inverse, their
  /// arithmetic mean: a zero in half of the runs does not make the ratio 0.
  double ratio = 0;
  /// The confidence interval: it contains the true median in at least 95% of all measurements.
  /// Nothing for fewer than six runs: with five, the median lies outside their range in 1 of 16.
  std::optional<double> low;
  std::optional<double> high;
  std::size_t n = 0;
};

/// Pairs values of the same round, so that a slow minute of the machine, which affects both,
/// cancels out. Ignores the rest of the longer series.
/// \returns  Nothing if there is no round, or if a base is 0.
/// \source   W. R. Thompson, "On Confidence Ranges for the Median" (1936): an interval between two
///           of the sorted ratios. Each ratio lies below the true median with probability 1/2,
///           whatever the distribution, so the number below it is binomial.
std::optional<Ratio> ratio_of(const std::vector<double>& values, const std::vector<double>& bases);

}  // namespace strata::cli
