#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// What several mallocs may hold together: the limits of a process that has heaps of the user's
/// beside its malloc. Each counts what it holds by itself, too (MemoryLimit).
///
///   hard limit  what would take the sum above it is refused. Before that is an answer, the others
///               give back what they have idle: make_room()
///   soft limit  above it they do so at once: keep_to_soft_limit()
///
/// Who has most idle gives it back first, whoever asks; then the next, until there is enough.
///
/// The malloc and the heaps may be linked from two copies of this code, which then share one
/// object. So its layout is fixed: strata_shared_limit_1() has it in its name.
/// \threads  Any number at once. The sums are relaxed: they order nothing.
class SharedLimit {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// What one of them has idle. They are in order by these, the one with most first.
  struct Idle {
    std::size_t bytes;  ///< 0: there is none
    std::size_t which;  ///< of these holders
  };
  /// Some that hold memory under the limit. It stays for ever. Functions, and no virtual ones: they
  /// may be another copy's.
  /// \threads  any, with no lock held
  struct Holders {
    /// The first one after `last` in the order.
    Idle (*next_idle)(Idle last) noexcept;
    /// The first one from a number on, whatever it has idle; kNone if there is none.
    std::size_t (*next)(std::size_t from) noexcept;
    /// Lets one give back everything idle, caches included. It may have ended meanwhile.
    void (*give_back)(std::size_t which) noexcept;
    Holders* following = nullptr;
  };

  struct Statistics {
    std::size_t soft_limit;  ///< 0: none
    std::size_t hard_limit;
    std::size_t held;
    std::size_t peak;
  };

  constexpr SharedLimit() noexcept = default;
  SharedLimit(const SharedLimit&) = delete;
  SharedLimit& operator=(const SharedLimit&) = delete;

  /// In bytes, 0 for none. Before anybody shares it.
  void configure(std::size_t soft, std::size_t hard) noexcept {
    soft_ = soft != 0 ? soft : kNone;
    hard_ = hard != 0 ? hard : kNone;
    next_pass_.store(soft_, std::memory_order_relaxed);
  }
  bool is_any() const noexcept { return soft_ != kNone || hard_ != kNone; }
  /// From now on they are asked to give back.
  void add(Holders& holders) noexcept;

  /// Counts `bytes` more as held.
  /// \returns  False if the hard limit forbids it.
  bool try_hold(std::size_t bytes) noexcept {
    std::size_t before = held_.load(std::memory_order_relaxed);
    do {
      if (bytes > hard_ || before > hard_ - bytes) return false;
    } while (!held_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
    return true;
  }
  /// As MemoryLimit::take_back().
  void take_back(std::size_t bytes) noexcept { held_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// The same, even above the limit.
  void hold(std::size_t bytes) noexcept { held_.fetch_add(bytes, std::memory_order_relaxed); }
  void let_go(std::size_t bytes) noexcept {
    note_peak(held_.fetch_sub(bytes, std::memory_order_relaxed));
  }

  std::size_t held_bytes() const noexcept { return held_.load(std::memory_order_relaxed); }
  bool has_soft_limit() const noexcept { return soft_ != kNone; }
  bool is_above_soft() const noexcept { return held_bytes() > soft_; }

  /// Called with no lock held, after `bytes` could not be had: lets the holders give back what is
  /// idle until there is room for as much and some bookkeeping, or waits while another thread does.
  /// \returns  true if a new try may succeed
  bool make_room(std::size_t bytes) noexcept;

  /// Called on slow paths with no lock held: above the soft limit everything idle goes back, once
  /// per some growth.
  /// \param idle_bytes  of who calls
  /// \cost  two loads below the limit
  void keep_to_soft_limit(std::size_t idle_bytes) noexcept {
    if (is_above_soft()) give_back_above_soft(idle_bytes);
  }

  /// In the child of a fork, where no other thread makes room.
  void reset_after_fork() noexcept { is_at_it_.store(0, std::memory_order_relaxed); }

  Statistics statistics() const noexcept {
    return {soft_ != kNone ? soft_ : 0, hard_ != kNone ? hard_ : 0, held_bytes(),
            std::max(peak_.load(std::memory_order_relaxed), held_bytes())};
  }

 private:
  // Chosen: as MemoryLimit's.
  static constexpr std::size_t kPassShare = 32;

  /// Before less is held.
  void note_peak(std::size_t held) noexcept {
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (held > peak && !peak_.compare_exchange_weak(peak, held, std::memory_order_relaxed)) {
    }
  }
  bool has_room(std::size_t bytes) const noexcept {
    const std::size_t held = held_bytes();
    return held <= hard_ && bytes <= hard_ - held;
  }
  void give_back_above_soft(std::size_t idle_bytes) noexcept;
  bool begin() noexcept;
  void end() noexcept;
  template <typename IsEnough>
  bool give_back_the_most(IsEnough is_enough) noexcept;
  template <typename IsEnough>
  bool give_back_all(IsEnough is_enough) noexcept;

  std::size_t soft_ = kNone;
  std::size_t hard_ = kNone;
  std::atomic<std::size_t> held_{0};
  std::atomic<std::size_t> peak_{0};
  std::atomic<std::size_t> next_pass_{kNone};
  std::atomic<std::uint64_t> vain_until_ns_{0};  // when all may be asked again; relaxed: a hint
  std::atomic<Holders*> holders_{nullptr};       // release when some are added, acquire to read
  // 1 while a thread lets others give back: the rest wait for it. acquire and release pair with
  // each other.
  std::atomic<std::uint32_t> is_at_it_{0};
};

}  // namespace strata
