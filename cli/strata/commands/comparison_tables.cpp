#include <fmt/format.h>

#include <algorithm>

#include "commands/result_tables.h"
#include "contenders/contender.h"
#include "measure/metric.h"
#include "output/table.h"
#include "output/text.h"
#include "output/units.h"

namespace strata::cli {
namespace {

constexpr const char* kElapsed = "elapsed_s";
constexpr const char* kCpu = "cpu_s";

/// The ok row with the smallest median; nullptr unless at least two can be compared.
const Row* best_of(const std::vector<Row>& rows, const char* metric) {
  const Row* best = nullptr;
  int count = 0;
  for (const Row& row : rows) {
    if (!row.ok) continue;
    ++count;
    if (best == nullptr || row.median(metric) < best->median(metric)) best = &row;
  }
  return count >= 2 ? best : nullptr;
}

std::string ratio_text(const Row& row, const Row* baseline, const char* metric) {
  double base = baseline != nullptr ? baseline->median(metric) : 0;
  return base > 0 ? format_ratio(row.median(metric) / base) : "";
}

/// The contenders whose runs overlap with the best one's, so that the numbers do not distinguish
/// them.
std::string indistinguishable(const std::vector<Row>& rows, const Row& best, const char* metric) {
  const Summary* lead = best.metric(metric);
  std::string names;
  for (const Row& row : rows) {
    const Summary* other = row.metric(metric);
    if (&row == &best || !row.ok || lead == nullptr || other == nullptr) continue;
    if (other->min <= lead->max) append_item(names, row.contender);
  }
  return names;
}

}  // namespace

const Row* baseline_of(const std::vector<Row>& rows) {
  auto found = std::ranges::find(rows, kSystem, &Row::contender);
  if (found == rows.end()) found = rows.begin();
  return found != rows.end() && found->ok ? &*found : nullptr;
}

std::string comparison_table(const std::vector<Row>& rows, bool colour,
                             std::optional<std::size_t> width) {
  Table table({{"allocator", false},
               {"time"},
               {"ratio"},
               {"spread"},
               {"CPU"},
               {"ratio"},
               {"peak RSS"},
               {"ratio"}});
  Unit seconds = column_unit(kElapsed, largest_median(rows, kElapsed));
  Unit cpu_seconds = column_unit(kCpu, largest_median(rows, kCpu));
  Unit bytes = column_unit(kPeakMetric, largest_median(rows, kPeakMetric));
  const Row* baseline = baseline_of(rows);
  const Row* fastest = best_of(rows, kElapsed);
  const Row* leanest = best_of(rows, kPeakMetric);
  for (const Row& row : rows) {
    if (!row.ok) {
      table.add_remark(row.contender, "failed: " + row.reason, Style::kBad);
      continue;
    }
    std::string marks;
    if (&row == fastest) marks = "fastest";
    if (&row == leanest) append_item(marks, "leanest");
    table.add_row(
        {row.contender, seconds.format(row.median(kElapsed)), ratio_text(row, baseline, kElapsed),
         format_spread(row.metric(kElapsed)->spread(), row.metric(kElapsed)->n),
         cpu_seconds.format(row.median(kCpu)), ratio_text(row, baseline, kCpu),
         bytes.format(row.median(kPeakMetric)), ratio_text(row, baseline, kPeakMetric)},
        names_strata(row.contender) ? Style::kBold : Style::kPlain, marks, Style::kGood);
  }
  return table.to_text(colour, width);
}

std::string comparison_notes(const std::vector<Row>& rows, bool colour) {
  std::string text;
  const Row* baseline = baseline_of(rows);
  text += styled(fmt::format("Medians{}. spread: (slowest - fastest run) / median. peak RSS: the "
                             "largest process.",
                             baseline != nullptr ? "; ratios to " + baseline->contender : ""),
                 Style::kDim, colour) +
          "\n";
  if (const Row* fastest = best_of(rows, kElapsed)) {
    std::string others = indistinguishable(rows, *fastest, kElapsed);
    if (!others.empty()) {
      text += styled(fmt::format("{} is fastest by its median only: its runs overlap with those of "
                                 "{}.",
                                 fastest->contender, others),
                     Style::kDim, colour) +
              "\n";
    }
  }
  bool all_failed = !rows.empty() && std::ranges::all_of(rows, [](const Row& row) {
    return !row.ok && row.reason != kInterruptedTooEarly;
  });
  for (const Row& row : rows) {
    if (row.last_output.empty()) continue;
    text += fmt::format("\nLast output under {}:\n", row.contender);
    text += printable_lines(row.last_output, "  ");
    if (all_failed) break;  // one is enough if all failed alike
  }
  if (all_failed && rows.size() > 1) {
    text += "\nNo allocator completed a run: does the command itself fail?\n";
  }
  return text;
}

}  // namespace strata::cli
