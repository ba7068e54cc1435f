#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace strata {

/// Decides whether holes of spans go back to the kernel as the heap grows. Central owns it. Where a
/// program's phases fill the same spans again and again, returning holes is futile: each phase
/// faults them in anew, and the peak is the same. While that is so, each turn lets twice as much
/// growth pass without returning holes.
/// \threads  Any number at once. relaxed, all: hints.
class HoleExchange {
 public:
  /// \returns  for how many of the bytes of growth holes are to go back
  std::size_t take_due(std::size_t growth) noexcept {
    const std::size_t ignored = ignored_.load(std::memory_order_relaxed);
    if (ignored == 0) [[likely]]
      return growth;
    const std::size_t now = std::min(ignored, growth);
    ignored_.store(ignored - now, std::memory_order_relaxed);
    return growth - now;
  }

  /// Counts `bytes` returned as holes. `filled` is how many of all bytes returned since the start
  /// are held again, since their spans served.
  void note_returned(std::size_t bytes, std::size_t filled) noexcept {
    const std::size_t all = returned_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::size_t judged = judged_.load(std::memory_order_relaxed);
    if (all < judged + kTurnBytes) return;
    // One thread judges a turn.
    if (judged_.compare_exchange_strong(judged, all, std::memory_order_relaxed))
      judge(std::min(all - judged, 2 * kTurnBytes), filled);
  }

  /// All spans are gone.
  void forget(std::size_t filled) noexcept {
    seen_filled_.store(filled, std::memory_order_relaxed);
    for (auto* each : {&lately_returned_, &lately_filled_, &ignored_})
      each->store(0, std::memory_order_relaxed);
    vain_turns_.store(0, std::memory_order_relaxed);
  }

 private:
  // Chosen: some hundred system calls.
  static constexpr std::size_t kTurnBytes = std::size_t{4} << 20;
  // Chosen: a change of the phases is noticed after three turns, 400 MiB of growth.
  static constexpr unsigned kMostVainTurns = 5;

  /// Judges a turn. Each turn weighs the earlier ones by three fourths.
  void judge(std::size_t returned, std::size_t filled) noexcept {
    const auto fade = [](const std::atomic<std::size_t>& sum) {
      return sum.load(std::memory_order_relaxed) / 4 * 3;
    };
    // Another turn's judge may have seen more.
    const std::size_t seen = seen_filled_.exchange(filled, std::memory_order_relaxed);
    const std::size_t new_filled = filled > seen ? filled - seen : 0;
    const std::size_t all_returned = fade(lately_returned_) + returned;
    const std::size_t all_filled = std::min(fade(lately_filled_) + new_filled, all_returned);
    lately_returned_.store(all_returned, std::memory_order_relaxed);
    lately_filled_.store(all_filled, std::memory_order_relaxed);
    unsigned turns = vain_turns_.load(std::memory_order_relaxed);
    if (all_filled >= all_returned / 2) {
      turns = std::min(turns + 1, kMostVainTurns);
      ignored_.store(returned << turns, std::memory_order_relaxed);
    } else if (turns != 0) {
      --turns;
    }
    vain_turns_.store(turns, std::memory_order_relaxed);
  }

  std::atomic<std::size_t> returned_{0};  // since the start
  std::atomic<std::size_t> judged_{0};    // of these
  std::atomic<std::size_t> seen_filled_{0};
  std::atomic<std::size_t> lately_returned_{0};
  std::atomic<std::size_t> lately_filled_{0};
  std::atomic<std::size_t> ignored_{0};
  std::atomic<unsigned> vain_turns_{0};
};

}  // namespace strata
