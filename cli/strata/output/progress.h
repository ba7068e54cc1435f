#pragma once

#include <chrono>
#include <string_view>

namespace strata::cli {

/// Shows progress on standard error. On a terminal it rewrites one line. In a pipe, a log or a dumb
/// terminal it prints only milestones, a line each and at most one per second.
class Progress {
 public:
  explicit Progress(bool is_enabled);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void milestone(std::string_view text);
  void step(std::string_view text);

  /// Clears the line for other output.
  void clear();

 private:
  void rewrite(std::string_view text);

  bool is_enabled_;
  bool is_terminal_;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point last_milestone_{};
};

}  // namespace strata::cli
