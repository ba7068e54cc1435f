#include "output/progress.h"

#include "output/say.h"
#include "output/table.h"
#include "output/text.h"

namespace strata::cli {
namespace {

/// Keeps millisecond runs from filling a log.
constexpr std::chrono::seconds kBetweenMilestones{1};

/// For a terminal of unknown width.
constexpr std::size_t kUsualColumns = 80;

}  // namespace

Progress::Progress(bool is_enabled)
    : is_enabled_(is_enabled), is_terminal_(understands_escapes(stderr)) {}

void Progress::milestone(std::string_view text) {
  if (!is_enabled_) return;
  if (is_terminal_) {
    rewrite(text);
    return;
  }
  auto now = std::chrono::steady_clock::now();
  if (now - last_milestone_ < kBetweenMilestones) return;
  last_milestone_ = now;
  say("{}\n", text);
}

void Progress::step(std::string_view text) {
  if (is_enabled_ && is_terminal_) rewrite(text);
}

void Progress::clear() {
  if (!is_shown_) return;
  say("\r\033[K");
  is_shown_ = false;
}

void Progress::rewrite(std::string_view text) {
  // A line that wraps cannot be rewritten.
  const std::size_t columns = terminal_columns(stderr).value_or(kUsualColumns);
  say("\r\033[K{}", head_of(text, columns - 1));
  is_shown_ = true;
}

}  // namespace strata::cli
