#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// \file  The findings of a cell, as lines of text: strata-cell writes them, `strata` reads them.
///
///   entered_s VALUE                        CLOCK_MONOTONIC when main() began
///   metric NAME VALUE
///   served ALLOCATIONS FAILED
///   timer_cost_ns VALUE
///   latency KIND COUNT SUM_PS MAX_PS
///   bucket INDEX COUNT                     of the latency above; see LogBuckets
///   broken SENTENCE | wrong SENTENCE | unfit SENTENCE
///   end                                    the findings are complete

namespace strata::cell {

/// Writes findings without allocating: the allocator of this process may be broken.
class FindingsWriter {
 public:
  explicit FindingsWriter(int fd) noexcept : fd_(fd) {}

  void entered(double s) noexcept { line("entered_s %.9f", s); }
  void metric(const char* name, double value) noexcept { line("metric %s %.9g", name, value); }
  void served(std::uint64_t allocations, std::uint64_t failed) noexcept {
    line("served %ju %ju", std::uintmax_t{allocations}, std::uintmax_t{failed});
  }
  /// \pre  called before any latency()
  void timer_cost(double ns) noexcept { line("timer_cost_ns %.3f", ns); }
  void latency(const char* kind, std::uint64_t count, std::uint64_t sum_ps,
               std::uint64_t max_ps) noexcept {
    line("latency %s %ju %ju %ju", kind, std::uintmax_t{count}, std::uintmax_t{sum_ps},
         std::uintmax_t{max_ps});
  }
  /// Adds a bucket to the latency written last.
  void bucket(std::size_t index, std::uint64_t count) noexcept {
    line("bucket %zu %ju", index, std::uintmax_t{count});
  }
  void broken(const char* sentence) noexcept { line("broken %s", sentence); }
  void wrong(const char* sentence) noexcept { line("wrong %s", sentence); }
  void unfit(const char* sentence) noexcept { line("unfit %s", sentence); }
  void end() noexcept { line("end"); }

 private:
  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) noexcept;

  int fd_;
};

/// The findings of a cell, as `strata` reads them.
struct CellFindings {
  struct Latency {
    std::string kind;
    std::uint64_t count = 0;
    std::uint64_t sum_ps = 0;
    std::uint64_t max_ps = 0;
    /// indices (LogBuckets) and counts
    std::vector<std::pair<std::size_t, std::uint64_t>> buckets;
  };

  double entered_s = 0;  ///< CLOCK_MONOTONIC when the cell's main() began
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<Latency> latencies;
  double timer_cost_ns = 0;
  std::uint64_t allocations = 0;
  std::uint64_t failed_allocations = 0;
  std::string broken;  ///< the sentence, if it found corrupted memory
  std::string wrong;   ///< the sentence, if a sum of the scenario is wrong
  std::string unfit;   ///< the sentence, if the contender cannot run the scenario
  bool is_whole = false;
};

/// Parses all complete lines. Truncated findings have is_whole == false.
CellFindings parse_findings(std::string_view text);

}  // namespace strata::cell
