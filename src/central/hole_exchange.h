#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace strata {

/// Decides whether holes of spans go back to the kernel as the heap grows. Where a program's phases
/// fill the same spans again and again, each phase has them faulted in anew, and the peak is the
/// same: as long as that is so, twice as much growth passes by each time.
/// \threads  Any number at once. relaxed, all: hints.
class HoleExchange {
 public:
  /// \returns  of so many bytes of growth, those that holes are to go back for
  std::size_t take_due(std::size_t growth) noexcept {
    const std::size_t ignored = ignored_.load(std::memory_order_relaxed);
    if (ignored == 0) [[likely]]
      return growth;
    const std::size_t now = std::min(ignored, growth);
    ignored_.store(ignored - now, std::memory_order_relaxed);
    return growth - now;
  }

  /// So many bytes have gone back. Of all that did so far, `filled` are held again, since the spans
  /// served in which they lie.
  void note_returned(std::size_t bytes, std::size_t filled) noexcept {
    const std::size_t returned = returned_.load(std::memory_order_relaxed) + bytes;
    returned_.store(returned, std::memory_order_relaxed);
    const std::size_t in_turn = returned - judged_.load(std::memory_order_relaxed);
    if (in_turn < kTurnBytes) return;
    judged_.store(returned, std::memory_order_relaxed);
    const std::size_t since = filled - forgotten_.load(std::memory_order_relaxed);
    unsigned turns = 0;
    if (since >= returned / 2) {
      turns = std::min(vain_turns_.load(std::memory_order_relaxed) + 1, kMostVainTurns);
      ignored_.store(in_turn << turns, std::memory_order_relaxed);
    }
    vain_turns_.store(turns, std::memory_order_relaxed);
    if (returned >= kRemembered) {
      returned_.store(returned / 2, std::memory_order_relaxed);
      judged_.store(returned / 2, std::memory_order_relaxed);
      forgotten_.store(filled - since / 2, std::memory_order_relaxed);
    }
  }

 private:
  // Chosen: some hundred system calls.
  static constexpr std::size_t kTurnBytes = std::size_t{4} << 20;
  // Chosen: where other phases begin, they are noticed after 256 MiB of growth.
  static constexpr unsigned kMostVainTurns = 5;
  // Chosen: what was long ago counts half, and half again.
  static constexpr std::size_t kRemembered = std::size_t{64} << 20;

  std::atomic<std::size_t> returned_{0};
  std::atomic<std::size_t> judged_{0};     // of these
  std::atomic<std::size_t> forgotten_{0};  // of those that were filled
  std::atomic<std::size_t> ignored_{0};
  std::atomic<unsigned> vain_turns_{0};  // in a row
};

}  // namespace strata
