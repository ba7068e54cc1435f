#include "measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace strata::cli {

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

double geometric_mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double logarithms = 0;
  for (double value : values) logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

}  // namespace strata::cli
