#include "shared/findings.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "shared/log_buckets.h"
#include "shared/parse_number.h"

namespace strata::cell {
namespace {

constexpr std::size_t kLongestLine = 512;

/// The words of one line, each taken once.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view next() {
    std::size_t end = rest_.find(' ');
    std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return word;
  }
  std::uint64_t count() { return parse_number<std::uint64_t>(next()).value_or(0); }
  double real() { return parse_number<double>(next()).value_or(0); }
  std::string rest() const { return std::string(rest_); }

 private:
  std::string_view rest_;
};

void take_in(CellFindings& findings, std::string_view line) {
  Words words(line);
  std::string_view word = words.next();
  if (word == "entered_s") {
    findings.entered_s = words.real();
  } else if (word == "metric") {
    std::string name(words.next());
    const std::optional<double> value = parse_number<double>(words.next());
    if (value) findings.metrics.emplace_back(std::move(name), *value);
  } else if (word == "served") {
    findings.allocations = words.count();
    findings.failed_allocations = words.count();
  } else if (word == "timer_cost_ns") {
    findings.timer_cost_ns = words.real();
  } else if (word == "latency") {
    CellFindings::Latency& latency = findings.latencies.emplace_back();
    latency.kind = words.next();
    latency.count = words.count();
    latency.sum_ps = words.count();
    latency.max_ps = words.count();
  } else if (word == "bucket" && !findings.latencies.empty()) {
    const std::uint64_t bucket = words.count();
    const std::uint64_t samples = words.count();
    if (bucket < LogBuckets::kCount && samples > 0) {
      findings.latencies.back().buckets.emplace_back(bucket, samples);
    }
  } else if (word == "broken") {
    findings.broken = words.rest();
  } else if (word == "wrong") {
    findings.wrong = words.rest();
  } else if (word == "unfit") {
    findings.unfit = words.rest();
  } else if (word == "end") {
    findings.is_whole = true;
  }
}

}  // namespace

void FindingsWriter::line(const char* format, ...) noexcept {
  if (sizeof buffer_ - used_ < kLongestLine) flush();
  std::va_list arguments;
  va_start(arguments, format);
  int length = std::vsnprintf(buffer_ + used_, kLongestLine - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  auto written = static_cast<std::size_t>(length);
  used_ += written < kLongestLine - 1 ? written : kLongestLine - 2;
  buffer_[used_++] = '\n';
}

void FindingsWriter::flush() noexcept {
  std::size_t done = 0;
  while (done < used_) {
    ssize_t written = ::write(fd_, buffer_ + done, used_ - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  used_ = 0;
}

CellFindings parse_findings(std::string_view text) {
  CellFindings findings;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // half a line is none
    take_in(findings, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return findings;
}

}  // namespace strata::cell
