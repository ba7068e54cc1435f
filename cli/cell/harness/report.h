#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::cell {

/// Writes what a cell has to say, line by line, without asking any allocator for memory: the one in
/// this process may be broken.
///
///   metric NAME VALUE
///   served ALLOCATIONS FREES FAILED
///   timer_cost_ns VALUE
///   latency KIND COUNT SUM_PS MAX_PS
///   bucket INDEX COUNT                     of the latency above; LogBuckets
///   broken SENTENCE | wrong SENTENCE | unfit SENTENCE
///   end                                    the report is whole
class Report {
 public:
  explicit Report(int fd) noexcept : fd_(fd) {}
  ~Report() { flush(); }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  [[gnu::format(printf, 2, 3)]] void line(const char* format, ...) noexcept;
  void flush() noexcept;

 private:
  int fd_;
  std::size_t used_ = 0;
  char buffer_[4096];
};

}  // namespace strata::cell
