#include "report/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace strata::cli {
namespace {

/// From the largest down; the last is for everything smaller.
const std::vector<ChosenUnit>& units_of(Quantity quantity) {
  static const std::vector<ChosenUnit> seconds = {
      {"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}, {"ns", 1e-9}};
  static const std::vector<ChosenUnit> bytes = {
      {"TiB", 1099511627776.0}, {"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024}, {"B", 1}};
  static const std::vector<ChosenUnit> rates = {
      {"G/s", 1e9}, {"M/s", 1e6}, {"k/s", 1e3}, {"/s", 1}};
  static const std::vector<ChosenUnit> counts = {{"G", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}};
  static const std::vector<ChosenUnit> ratios = {{"×", 1}};
  switch (quantity) {
    case Quantity::kSeconds:
      return seconds;
    case Quantity::kBytes:
      return bytes;
    case Quantity::kPerSecond:
      return rates;
    case Quantity::kRatio:
      return ratios;
    case Quantity::kCount:
      break;
  }
  return counts;
}

/// A blank at which no line ends: a number stays with its unit.
constexpr const char* kNoBreak = "\u00a0";

bool is_nanoseconds(std::string_view metric) {
  return metric.ends_with("_ns") || metric == "ns_per_op" || metric.ends_with("_ns_per_op");
}

/// "after_rss" -> "after RSS".
std::string with_blanks(std::string_view name) {
  std::string spoken;
  while (!name.empty()) {
    std::string_view word = name.substr(0, name.find('_'));
    name.remove_prefix(std::min(word.size() + 1, name.size()));
    if (!spoken.empty()) spoken += ' ';
    spoken += word == "rss" ? "RSS" : word == "pss" ? "PSS" : word == "cpu" ? "CPU" : word;
  }
  return spoken;
}

}  // namespace

Quantity quantity_of(std::string_view metric) {
  if (metric.ends_with("_per_s")) return Quantity::kPerSecond;
  if (metric.ends_with("_s") || is_nanoseconds(metric)) return Quantity::kSeconds;
  if (metric.ends_with("_bytes")) return Quantity::kBytes;
  return Quantity::kCount;
}

double scale_of(std::string_view metric) { return is_nanoseconds(metric) ? 1e-9 : 1; }

std::string spoken_name(std::string_view metric) {
  static const std::vector<std::pair<std::string_view, std::string_view>> known = {
      {"ops_per_s", "operations per second"},
      {"ns_per_op", "time per operation"},
      {"first_ns_per_op", "time per operation, first round"},
      {"elapsed_s", "time to finish"},
      {"cpu_s", "CPU time"},
      {"startup_s", "time to start"},
      {"peak_rss_bytes", "peak memory (RSS)"},
      {"after_rss_bytes", "memory kept after the load (RSS)"},
      {"loaded_rss_bytes", "memory at the end of the load (RSS)"},
      {"start_rss_bytes", "memory before the load (RSS)"},
      {"first_faults", "page faults, first round"},
      {"steady_faults", "page faults, steady state"},
      {"ops", "operations"},
      {"load_minor_faults", "page faults under load"}};
  for (const auto& [name, spoken] : known) {
    if (metric == name) return std::string(spoken);
  }
  for (std::string_view unit : {"_per_s", "_s", "_ns", "_bytes"}) {
    if (!metric.ends_with(unit)) continue;
    metric.remove_suffix(unit.size());
    return with_blanks(metric) + (unit == "_per_s" ? " per second" : "");
  }
  return with_blanks(metric);
}

ChosenUnit unit_for(Quantity quantity, double largest) {
  const std::vector<ChosenUnit>& units = units_of(quantity);
  for (const ChosenUnit& unit : units) {
    // 999.5 would be written with four digits.
    if (std::abs(largest) >= unit.size * 0.9995) return unit;
  }
  return largest == 0 && quantity == Quantity::kSeconds ? units.front() : units.back();
}

std::string three_digits(double value) {
  double size = std::abs(value);
  int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string brief(Quantity quantity, double value) {
  if (quantity == Quantity::kRatio) {
    return fmt::format("{:.{}f}×", value, value >= 99.5 ? 0 : value >= 9.95 ? 1 : 2);
  }
  ChosenUnit unit = unit_for(quantity, value);
  std::string number = three_digits(value / unit.size);
  if (unit.name.empty()) return number;
  bool hugs = unit.name == "/s" || quantity == Quantity::kCount;
  return fmt::format("{}{}{}", number, hugs ? "" : kNoBreak, unit.name);
}

std::string brief_metric(std::string_view metric, double value) {
  return brief(quantity_of(metric), value * scale_of(metric));
}

}  // namespace strata::cli
