#pragma once

#include <cstddef>
#include <vector>

namespace strata::cli {

/// What is told of repeated measurements: the middle, and how far they spread.
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

/// The n-th root of the product; 0 for none. Every value must be positive.
double geometric_mean(const std::vector<double>& values);

}  // namespace strata::cli
