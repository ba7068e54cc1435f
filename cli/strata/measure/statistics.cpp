#include "measure/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace strata::cli {
namespace {

constexpr std::size_t kFewestForInterval = 3;
constexpr int kResamples = 4000;  // the ends of the interval are known to about 0.3% of probability
constexpr double kOutside = 0.025;  // on each side of a 95% interval

double median_ratio(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const std::size_t middle = ratios.size() / 2;
  return ratios.size() % 2 == 1 ? ratios[middle] : std::sqrt(ratios[middle - 1] * ratios[middle]);
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  Summary summary;
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
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
  Ratio result;
  result.ratio = median_ratio(ratios);
  result.n = ratios.size();
  if (ratios.size() < kFewestForInterval) return result;
  std::mt19937_64 random(ratios.size());
  std::vector<double> medians;
  std::vector<double> drawn(ratios.size());
  for (int i = 0; i < kResamples; ++i) {
    for (double& ratio : drawn) ratio = ratios[random() % ratios.size()];
    medians.push_back(median_ratio(drawn));
  }
  std::sort(medians.begin(), medians.end());
  const auto outside = static_cast<std::size_t>(kOutside * kResamples);
  result.low = medians[outside];
  result.high = medians[medians.size() - 1 - outside];
  return result;
}

}  // namespace strata::cli
