#include "report/plot_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>

#include "output/text.h"

namespace strata::cli {
namespace {

constexpr double kCharacterWidth = 7.2;  ///< average, in units, for 12-unit text
constexpr int kLabelHeight = 13;
/// The gap between plotting area and label, for the leader that connects the label to its line.
constexpr double kLeaderStarts = 3;
constexpr double kLeaderEnds = 14;
constexpr double kLabelStarts = 17;

}  // namespace

int room_for(std::size_t longest) {
  return static_cast<int>(static_cast<double>(longest) * kCharacterWidth) + 12;
}

std::vector<double> spread_apart(std::vector<double> wanted, double gap, double low, double high) {
  std::size_t count = wanted.size();
  if (count == 0) return wanted;
  if (count > 1) gap = std::min(gap, (high - low) / static_cast<double>(count - 1));
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return wanted[i]; });
  // Merges neighbours that are too close into groups, each centred on the mean of its wanted
  // values.
  struct Group {
    double sum;
    std::size_t first;
    std::size_t size;
  };
  auto start_of = [&](const Group& group) {
    double extent = gap * static_cast<double>(group.size - 1);
    double start = group.sum / static_cast<double>(group.size) - extent / 2;
    return std::clamp(start, low, std::max(low, high - extent));
  };
  std::vector<Group> groups;
  for (std::size_t i = 0; i < count; ++i) {
    groups.push_back({std::clamp(wanted[order[i]], low, high), i, 1});
    while (groups.size() > 1) {
      Group& last = groups.back();
      Group& before = groups[groups.size() - 2];
      double end = start_of(before) + gap * static_cast<double>(before.size - 1);
      if (start_of(last) >= end + gap * (1 - 1e-9)) break;
      before.sum += last.sum;
      before.size += last.size;
      groups.pop_back();
    }
  }
  for (const Group& group : groups) {
    for (std::size_t i = 0; i < group.size; ++i) {
      wanted[order[group.first + i]] = start_of(group) + gap * static_cast<double>(i);
    }
  }
  return wanted;
}

void label_ends(Plot& plot, std::vector<EndLabel> labels) {
  std::vector<double> wanted;
  std::size_t longest = 0;
  for (const EndLabel& label : labels) {
    wanted.push_back(plot.y.position(label.y));
    longest = std::max(longest, display_width(label.text));
  }
  plot.right = std::max(plot.right, room_for(longest) + static_cast<int>(kLabelStarts) - 6);
  const auto gaps = static_cast<int>(labels.size()) - 1;
  plot.height = std::max(plot.height, kFrame + kLabelHeight * gaps);  // room for all
  const std::vector<double> ends = wanted;
  wanted = spread_apart(std::move(wanted), kLabelHeight / static_cast<double>(plot.height - kFrame),
                        0, 1);
  double unit = 1.0 / plot.inner_width();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const EndLabel& label = labels[i];
    plot.leaders.push_back({1 + kLeaderStarts * unit, std::clamp(ends[i], 0.0, 1.0),
                            1 + kLeaderEnds * unit, wanted[i], label.series});
    plot.texts.push_back(
        {1 + kLabelStarts * unit, wanted[i], label.text, Text::Align::kLeft, label.series});
  }
}

const Series& who(const Arrangement& all, int series) {
  return all.series[static_cast<std::size_t>(series)];
}

void capitalize(std::string& sentence) {
  if (sentence.empty()) return;
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
}

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string text = names.front();
  bool is_long = names.size() > 4;
  std::size_t shown = is_long ? 2 : names.size() - 1;
  for (std::size_t i = 1; i < shown; ++i) text += ", " + names[i];
  if (is_long) return text + fmt::format(" and {} more", names.size() - 2);
  if (names.size() > 1) text += " and " + names.back();
  return text;
}

}  // namespace strata::cli
