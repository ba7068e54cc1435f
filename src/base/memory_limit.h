#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/shared_limit.h"

namespace strata {

/// How much memory the heap holds, and how much it may hold.
///
/// Held is what may occupy RAM: pages in spans and idle ones, huge blocks and kept ranges, and the
/// bookkeeping's mappings. A block counts from its allocation on, touched or not. Not held: address
/// space that was only reserved, decommitted pages and holes of spans.
///
///   hard limit  what would take held above it is refused, and the caller is out of memory
///   soft limit  above it, idle memory is released at once: wants_release() says when a pass over
///               everything idle is due, so that passes come once per kPassShare of growth and not
///               with every call
///
/// It may share another limit with others, whose sum that one is about; what either refuses is
/// refused.
///
/// Always: held_bytes() <= hard limit, unless hold() took it there.
/// \threads  Any number at once. All fields are relaxed: they are sums, and order nothing.
class MemoryLimit {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Statistics {
    std::size_t soft_limit;  ///< 0: none
    std::size_t hard_limit;
    std::size_t held;
    std::size_t peak;        ///< the largest held, bookkeeping of that time included
    std::uint64_t passes;    ///< above the soft limit: how often everything idle was released
    std::uint64_t returned;  ///< bytes that those passes released
    std::uint64_t refusals;  ///< by the hard limit, this one or the shared one
    SharedLimit::Statistics shared;  ///< all zero where none is shared
  };

  constexpr MemoryLimit() noexcept = default;
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// In bytes, 0 for none. Before the first allocation.
  void configure(std::size_t soft, std::size_t hard) noexcept {
    soft_ = soft != 0 ? soft : kNone;
    hard_ = hard != 0 ? hard : kNone;
    next_pass_.store(soft_, std::memory_order_relaxed);
  }
  /// What is held counts in `shared` as well. Once, and before a second thread.
  void share(SharedLimit& shared) noexcept {
    shared_ = &shared;
    shared.hold(held_bytes());
  }
  SharedLimit* shared() const noexcept { return shared_; }
  /// What comes and goes from now on counts here alone: the caller lets go of all that is held now
  /// in what was shared, once it is gone.
  SharedLimit* stop_sharing() noexcept {
    SharedLimit* const shared = shared_;
    shared_ = nullptr;
    return shared;
  }
  /// Whether so many bytes fit below the hard limit, whatever the shared one says.
  bool has_room(std::size_t bytes) const noexcept {
    const std::size_t held = held_bytes();
    return held <= hard_ && bytes <= hard_ - held;
  }

  /// Counts `bytes` more as held.
  /// \returns  False, and counts a refusal, if the hard limit forbids it.
  bool try_hold(std::size_t bytes) noexcept {
    const bool is_granted = try_hold_unasked(bytes);
    if (!is_granted) refusals_.fetch_add(1, std::memory_order_relaxed);
    return is_granted;
  }
  /// The same for memory that the program did not ask for: no refusal is counted.
  bool try_hold_unasked(std::size_t bytes) noexcept {
    if (bytes == 0) return true;
    std::size_t before = held_.load(std::memory_order_relaxed);
    do {
      if (bytes > hard_ || before > hard_ - bytes) return false;
    } while (!held_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
    if (shared_ != nullptr && !shared_->try_hold(bytes)) {
      held_.fetch_sub(bytes, std::memory_order_relaxed);
      return false;
    }
    return true;
  }
  /// What was granted just now could not be had: as if nobody had asked for it.
  void take_back(std::size_t bytes) noexcept {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    if (shared_ != nullptr) shared_->take_back(bytes);
  }
  /// Counts `bytes` more as held, even above the limit.
  void hold(std::size_t bytes) noexcept {
    if (shared_ != nullptr) shared_->hold(bytes);
    held_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void let_go(std::size_t bytes) noexcept {
    note_peak(held_.fetch_sub(bytes, std::memory_order_relaxed));
    if (shared_ != nullptr) shared_->let_go(bytes);
  }

  std::size_t held_bytes() const noexcept { return held_.load(std::memory_order_relaxed); }
  bool is_above_soft() const noexcept {
    return held_bytes() > soft_ || (shared_ != nullptr && shared_->is_above_soft());
  }

  /// Whether everything idle, `idle_bytes`, should be released now.
  /// \cost  one load where there is no soft limit
  bool wants_release(std::size_t idle_bytes) const noexcept {
    if (soft_ == kNone) return false;
    const std::size_t held = held_bytes();
    return held > soft_ && (held >= next_pass_.load(std::memory_order_relaxed) ||
                            idle_bytes >= soft_ / kPassShare + 1);
  }
  /// A pass that released so many bytes is over: the next is due after some growth.
  void note_pass(std::size_t returned) noexcept {
    passes_.fetch_add(1, std::memory_order_relaxed);
    returned_.fetch_add(returned, std::memory_order_relaxed);
    next_pass_.store(std::max(soft_, held_bytes() + soft_ / kPassShare + 1),
                     std::memory_order_relaxed);
  }
  /// Whether there is a limit, its own or a shared one.
  bool is_any() const noexcept {
    return soft_ != kNone || hard_ != kNone || (shared_ != nullptr && shared_->is_any());
  }
  bool has_soft_limit() const noexcept {
    return soft_ != kNone || (shared_ != nullptr && shared_->has_soft_limit());
  }

  Statistics statistics() const noexcept;

 private:
  // Chosen: a pass visits every class and every span with free objects, about a millisecond per
  // GiB; once per 3% of growth that is little compared with filling that memory.
  static constexpr std::size_t kPassShare = 32;

  /// Before less is held: the sum was never larger since the last time.
  void note_peak(std::size_t held) noexcept {
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
    }
  }

  SharedLimit* shared_ = nullptr;
  std::size_t soft_ = kNone;
  std::size_t hard_ = kNone;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> next_pass_{kNone};
  std::atomic<std::uint64_t> passes_{0};
  std::atomic<std::uint64_t> returned_{0};
  std::atomic<std::uint64_t> refusals_{0};
};

inline MemoryLimit::Statistics MemoryLimit::statistics() const noexcept {
  return {soft_ != kNone ? soft_ : 0,
          hard_ != kNone ? hard_ : 0,
          held_bytes(),
          std::max(peak_.load(std::memory_order_relaxed), held_bytes()),
          passes_.load(std::memory_order_relaxed),
          returned_.load(std::memory_order_relaxed),
          refusals_.load(std::memory_order_relaxed),
          shared_ != nullptr ? shared_->statistics() : SharedLimit::Statistics{}};
}

}  // namespace strata
