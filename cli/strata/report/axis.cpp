#include "report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "output/text.h"

namespace strata::cli {
namespace {

std::string tick_text(Quantity quantity, double value) {
  return quantity == Quantity::kRatio ? three_digits(value) + "×" : brief(quantity, value);
}

/// The smallest of 1, 2, 5, 10, 20, … that is at least `least`.
double round_step(double least) {
  double decade = std::pow(10, std::floor(std::log10(least)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) return factor * decade;
  }
  return 10 * decade;
}

}  // namespace

double Axis::position(double value) const {
  if (!is_log) return (value - low) / (high - low);
  return std::log(std::max(value, low * 1e-6) / low) / std::log(high / low);
}

std::vector<Tick> ticks_apart(const Axis& axis, double characters) {
  std::vector<Tick> ticks = axis.ticks;
  std::ranges::stable_sort(ticks, {}, &Tick::importance);
  std::vector<Tick> kept;
  for (const Tick& tick : ticks) {
    bool fits = std::ranges::all_of(kept, [&](const Tick& other) {
      double distance = std::abs(axis.position(tick.at) - axis.position(other.at)) * characters;
      auto both = static_cast<double>(display_width(tick.text) + display_width(other.text));
      return distance > both / 2 + 1;
    });
    if (fits || tick.text.empty()) kept.push_back(tick);
  }
  return kept;
}

Axis linear_axis(Quantity quantity, std::string_view what, double high, int most_ticks) {
  if (!(high > 0)) high = 1;
  ChosenUnit unit = unit_for(quantity, high);
  double in_units = high / unit.size;
  double step = round_step(in_units / most_ticks);
  Axis axis;
  axis.title = std::string(what);
  if (!unit.name.empty()) {
    axis.title += fmt::format("{}{}", what.empty() ? "" : ", ",
                              quantity == Quantity::kRatio ? "ratio" : unit.name);
  }
  int count = static_cast<int>(std::ceil(in_units / step - 1e-9));
  for (int i = 0; i <= count; ++i) {
    double at = i * step;
    if (at <= in_units * 1.0001) axis.ticks.push_back({at * unit.size, three_digits(at), i % 2});
  }
  axis.high = std::max(high, axis.ticks.back().at) * 1.02;
  return axis;
}

Axis log_axis(Quantity quantity, std::string_view what, double low, double high) {
  Axis axis;
  axis.is_log = true;
  axis.title = std::string(what);
  axis.low = low;
  axis.high = std::max(high, low * 1.5);
  double decades = std::log10(axis.high / axis.low);
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high;
       decade *= 10) {
    for (int factor : {1, 2, 3, 5, 8}) {
      double at = decade * factor;
      int rank = factor == 1 ? 0 : factor == 2 || factor == 5 ? 1 : 2;
      if (at < axis.low || at > axis.high || (rank > 0 && decades > 2.2) ||
          (rank > 1 && decades > 0.7)) {
        continue;
      }
      axis.ticks.push_back({at, tick_text(quantity, at), rank});
    }
  }
  return axis;
}

double percentile_position(double below) { return -std::log10(std::max(1 - below, 1e-12)); }

Axis percentile_axis(double highest_position) {
  Axis axis;
  axis.title = "share of operations that were at least as fast";
  axis.high = std::max(highest_position, 1.0);
  axis.ticks.push_back({0, "0", 2});
  axis.ticks.push_back({percentile_position(0.5), "50%", 1});
  for (int nines = 1; nines <= axis.high + 1e-9; ++nines) {
    std::string text = nines == 1 ? "90" : nines == 2 ? "99" : "99." + std::string(nines - 2, '9');
    axis.ticks.push_back({static_cast<double>(nines), text + "%", 0});
  }
  return axis;
}

}  // namespace strata::cli
