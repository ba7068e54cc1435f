#include "measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace strata::cli {
namespace {

constexpr double kOutside = 0.025;  // the largest share on each side of a 95% interval

/// The number of samples to leave out on each side, so that at most `kOutside` of all measurements
/// have fewer on one side of the true median. Nothing if no number satisfies this.
std::optional<std::size_t> left_out(std::size_t n) {
  // Logarithm of the probability that k of n samples lie below the median; for thousands of samples
  // a double cannot hold the probability that none does.
  double logarithm = static_cast<double>(n) * std::log(0.5);
  double at_most = std::exp(logarithm);
  if (at_most > kOutside) return std::nullopt;
  for (std::size_t k = 0;; ++k) {
    logarithm += std::log(static_cast<double>(n - k) / static_cast<double>(k + 1));
    at_most += std::exp(logarithm);
    if (at_most > kOutside) return k;
  }
}

double middle_of(double low, double high) {
  return low > 0 ? std::sqrt(low * high) : (low + high) / 2;
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  Summary summary;
  if (samples.empty()) return summary;
  std::ranges::sort(samples);
  std::size_t middle = samples.size() / 2;
  summary.n = samples.size();
  summary.min = samples.front();
  summary.max = samples.back();
  summary.median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return summary;
}

std::optional<Ratio> ratio_of(const std::vector<double>& values, const std::vector<double>& bases) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(values.size(), bases.size()); ++i) {
    if (!(bases[i] > 0)) return std::nullopt;
    ratios.push_back(values[i] / bases[i]);
  }
  if (ratios.empty()) return std::nullopt;
  std::ranges::sort(ratios);
  const std::size_t n = ratios.size();
  const std::size_t middle = n / 2;
  Ratio result;
  result.ratio = n % 2 == 1 ? ratios[middle] : middle_of(ratios[middle - 1], ratios[middle]);
  result.n = n;
  if (const std::optional<std::size_t> out = left_out(n)) {
    result.low = ratios[*out];
    result.high = ratios[n - 1 - *out];
  }
  return result;
}

}  // namespace strata::cli
