#include "shared/findings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "shared/log_buckets.h"
#include "shared/words.h"

namespace strata::cell {
namespace {

void take_in(CellFindings& findings, std::string_view line) {
  const auto count = [&] { return parse_number<std::uint64_t>(take_word(line)).value_or(0); };
  const auto real = [&] { return parse_number<double>(take_word(line)).value_or(0); };
  const std::string_view word = take_word(line);
  if (word == "entered_s") {
    findings.entered_s = real();
  } else if (word == "metric") {
    std::string name(take_word(line));
    const std::optional<double> value = parse_number<double>(take_word(line));
    if (value) findings.metrics.emplace_back(std::move(name), *value);
  } else if (word == "served") {
    findings.allocations = count();
    findings.failed_allocations = count();
  } else if (word == "timer_cost_ns") {
    findings.timer_cost_ns = real();
  } else if (word == "latency") {
    CellFindings::Latency& latency = findings.latencies.emplace_back();
    latency.kind = take_word(line);
    latency.count = count();
    latency.sum_ps = count();
    latency.max_ps = count();
  } else if (word == "bucket" && !findings.latencies.empty()) {
    const std::uint64_t bucket = count();
    const std::uint64_t samples = count();
    if (bucket < LogBuckets::kCount && samples > 0) {
      findings.latencies.back().buckets.emplace_back(bucket, samples);
    }
  } else if (word == "broken") {
    findings.broken = line;
  } else if (word == "wrong") {
    findings.wrong = line;
  } else if (word == "unfit") {
    findings.unfit = line;
  } else if (word == "end") {
    findings.is_whole = true;
  }
}

}  // namespace

void FindingsWriter::line(const char* format, ...) noexcept {
  char text[512];  // a longer line is cut
  std::va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text - 1, format, arguments);
  va_end(arguments);
  std::size_t bytes = std::min(static_cast<std::size_t>(std::max(length, 0)), sizeof text - 2);
  text[bytes++] = '\n';
  [[maybe_unused]] const ssize_t written = ::write(fd_, text, bytes);
}

CellFindings parse_findings(std::string_view text) {
  CellFindings findings;
  text = text.substr(0, text.rfind('\n') + 1);  // drops an incomplete last line
  while (!text.empty()) take_in(findings, take_word(text, '\n'));
  return findings;
}

}  // namespace strata::cell
