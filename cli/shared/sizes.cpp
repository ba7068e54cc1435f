#include "shared/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "shared/words.h"

namespace strata::cell {
namespace {

constexpr double kParetoShape = 1.2;
/// Times the scale: a tail without end has no mean worth telling.
constexpr double kParetoCut = 1024;
constexpr std::uint32_t kLargestSize = std::uint32_t{1} << 30;

std::uint32_t scaled(double bytes, double factor) {
  return static_cast<std::uint32_t>(
      std::clamp(std::round(bytes * factor), 1.0, static_cast<double>(kLargestSize)));
}

}  // namespace

Sizes::Sizes(const std::string& distribution, std::uint64_t size) {
  const double unit = static_cast<double>(size);
  if (distribution == "fixed") {
    ranges_ = {{scaled(unit, 1), scaled(unit, 1), 1}};
  } else if (distribution == "mixed") {
    const double factor = unit / 64;
    ranges_ = {{scaled(8, factor), scaled(64, factor), 0.8},
               {scaled(65, factor), scaled(1024, factor), 0.18},
               {scaled(1025, factor), scaled(16384, factor), 0.02}};
  } else if (distribution == "pareto") {
    pareto_scale_ = unit;
    ranges_ = {{scaled(unit, 1), scaled(unit, kParetoCut), 1}};
  } else {
    read_file(distribution);
  }
  std::vector<double> weights;
  double total = 0;
  double sum = 0;
  smallest_ = kLargestSize;
  largest_ = 1;
  for (const Range& range : ranges_) {
    weights.push_back(range.weight);
    total += range.weight;
    sum += range.weight * (static_cast<double>(range.from) + range.to) / 2;
    smallest_ = std::min(smallest_, range.from);
    largest_ = std::max(largest_, range.to);
  }
  choose_ = std::discrete_distribution<std::size_t>(weights.begin(), weights.end());
  mean_ = sum / total;
  if (pareto_scale_ > 0) {
    const double a = kParetoShape;
    const double tail = std::pow(kParetoCut, -a);
    mean_ = unit * (a / (a - 1) * (1 - std::pow(kParetoCut, 1 - a)) + kParetoCut * tail);
  }
}

std::uint32_t Sizes::draw(std::mt19937_64& random) {
  if (pareto_scale_ > 0) {
    double u = 1 - std::uniform_real_distribution<double>(0, 1)(random);  // (0, 1]
    double factor = std::min(std::pow(u, -1 / kParetoShape), kParetoCut);
    return scaled(pareto_scale_, factor);
  }
  const Range& range = ranges_[choose_(random)];
  if (range.from == range.to) return range.from;
  return std::uniform_int_distribution<std::uint32_t>(range.from, range.to)(random);
}

void Sizes::read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("cannot read the sizes in '{}'", path));
  double total = 0;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    bool is_title = number == 1 && line.find_first_of("0123456789") == std::string::npos;
    if (is_title || line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (line.ends_with('\r')) line.pop_back();
    const std::size_t comma = line.find(',');
    const auto bytes = parse_number<std::uint32_t>(line.substr(0, comma));
    const auto weight =
        comma == std::string::npos ? 1.0 : parse_number<double>(line.substr(comma + 1));
    const bool is_good = bytes && *bytes >= 1 && *bytes <= kLargestSize && weight && *weight > 0;
    if (!is_good || !std::isfinite(total += *weight)) {
      throw std::runtime_error(fmt::format(
          "line {} of '{}' is not a size; give bytes,weight, as in 64,0.5", number, path));
    }
    ranges_.push_back({*bytes, *bytes, *weight});
  }
  if (ranges_.empty()) throw std::runtime_error(fmt::format("there are no sizes in '{}'", path));
}

}  // namespace strata::cell
