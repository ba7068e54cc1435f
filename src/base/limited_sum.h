#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace strata {

/// The bytes that are held, and their limits.
///
///   hard limit  a request that would take the sum above it is refused
///   soft limit  above it, idle memory is released at once: is_pass_due() says when a pass over
///   everything idle is due, which is once per kPassShare of growth and not with every call
///
/// Always: held_bytes() <= hard limit, unless hold() took it there.
/// \threads  Any number at once. All fields are relaxed: they are sums, and order nothing.
class LimitedSum {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Statistics {
    std::size_t soft_limit;  ///< 0: none
    std::size_t hard_limit;
    std::size_t held;
    std::size_t peak;  ///< the largest held
  };

  constexpr LimitedSum() noexcept = default;
  LimitedSum(const LimitedSum&) = delete;
  LimitedSum& operator=(const LimitedSum&) = delete;

  /// In bytes, 0 for none. Call before the first try_hold(), and before there is a second thread.
  void configure(std::size_t soft, std::size_t hard) noexcept {
    soft_ = soft != 0 ? soft : kNone;
    hard_ = hard != 0 ? hard : kNone;
    next_pass_.store(soft_, std::memory_order_relaxed);
  }
  bool has_soft_limit() const noexcept { return soft_ != kNone; }
  bool has_hard_limit() const noexcept { return hard_ != kNone; }
  bool is_any() const noexcept { return soft_ != kNone || hard_ != kNone; }

  /// Whether so many bytes fit below the hard limit if nothing else is held.
  bool allows(std::size_t bytes) const noexcept { return bytes <= hard_; }

  /// Counts `bytes` more as held.
  /// \returns  False if the hard limit forbids it.
  bool try_hold(std::size_t bytes) noexcept {
    std::size_t before = held_.load(std::memory_order_relaxed);
    do {
      if (bytes > hard_ || before > hard_ - bytes) return false;
    } while (!held_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
    return true;
  }
  /// Undoes a grant whose memory could not be had.
  void take_back(std::size_t bytes) noexcept { held_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// Counts `bytes` more as held, even above the limit.
  void hold(std::size_t bytes) noexcept { held_.fetch_add(bytes, std::memory_order_relaxed); }
  void let_go(std::size_t bytes) noexcept {
    note_peak(held_.fetch_sub(bytes, std::memory_order_relaxed));
  }

  std::size_t held_bytes() const noexcept { return held_.load(std::memory_order_relaxed); }
  bool is_above_soft() const noexcept { return held_bytes() > soft_; }
  /// Whether so many bytes fit below the hard limit.
  bool has_room(std::size_t bytes) const noexcept {
    const std::size_t held = held_bytes();
    return held <= hard_ && bytes <= hard_ - held;
  }

  /// Whether everything idle should be released now.
  /// \param new_idle_bytes  idle bytes that no pass has tried to release
  /// \cost  two loads below the soft limit
  bool is_pass_due(std::size_t new_idle_bytes) const noexcept {
    const std::size_t held = held_bytes();
    return held > soft_ &&
           (held >= next_pass_.load(std::memory_order_relaxed) || new_idle_bytes >= pass_step());
  }
  /// Ends a pass: the next is due after some growth.
  void note_pass() noexcept {
    next_pass_.store(std::max(soft_, held_bytes() + pass_step()), std::memory_order_relaxed);
  }

  Statistics statistics() const noexcept {
    return {soft_ != kNone ? soft_ : 0, hard_ != kNone ? hard_ : 0, held_bytes(),
            std::max(peak_.load(std::memory_order_relaxed), held_bytes())};
  }

 private:
  // Chosen: a pass visits every class and every span with free objects, about a millisecond per
  // GiB; once per 3% of growth, that is little compared with filling that memory.
  static constexpr std::size_t kPassShare = 32;

  std::size_t pass_step() const noexcept { return soft_ / kPassShare + 1; }
  /// Called before the sum falls: it was never larger since the last call.
  void note_peak(std::size_t held) noexcept {
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
    }
  }

  std::size_t soft_ = kNone;
  std::size_t hard_ = kNone;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> next_pass_{kNone};
};

}  // namespace strata
