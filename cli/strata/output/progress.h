#pragma once

#include <chrono>
#include <string_view>

namespace strata::cli {

/// Tells on standard error what is being done: on a terminal in one line that is rewritten; in a
/// pipe, a log or a dumb terminal, where nothing can be rewritten, only milestones, each on a line
/// of its own and at most one per second.
class Progress {
 public:
  explicit Progress(bool is_enabled = true);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void milestone(std::string_view text);
  void step(std::string_view text);

  /// Leaves the line empty, for others to write on.
  void clear();

 private:
  void rewrite(std::string_view text);

  bool is_enabled_;
  bool is_terminal_;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point last_milestone_{};
};

}  // namespace strata::cli
