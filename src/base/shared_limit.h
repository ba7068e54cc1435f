#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/limited_sum.h"

namespace strata {

/// What several mallocs may hold together: the limits of a process that has heaps of the user's
/// beside its malloc. Each counts what it holds by itself, too (MemoryLimit). Before the hard limit
/// refuses anything, the others give back what they have idle: make_room(). Above the soft limit
/// they do so at once: keep_to_soft_limit().
///
/// Who has most idle gives it back first, whoever asks; then the next, until there is enough.
///
/// The malloc and the heaps may be linked from two copies of this code, which then share one
/// object. So its layout is fixed, and LimitedSum's: strata_shared_limit_1() has it in its name.
/// \threads  any number at once
class SharedLimit : public LimitedSum {
 public:
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

  constexpr SharedLimit() noexcept = default;

  /// From now on they are asked to give back.
  void add(Holders& holders) noexcept;

  /// Called with no lock held, after `bytes` could not be had: lets the holders give back what is
  /// idle until there is room for as much and some bookkeeping, or waits while another thread does.
  /// A signal handler that interrupted its own thread at this finds no room.
  /// \returns  true if a new try may succeed
  bool make_room(std::size_t bytes) noexcept;

  /// Called on slow paths with no lock held: above the soft limit everything idle goes back, once
  /// per some growth.
  /// \param new_idle_bytes  of who calls, as of LimitedSum::is_pass_due()
  /// \returns  true if all have given back what they can, and it is not enough
  bool keep_to_soft_limit(std::size_t new_idle_bytes) noexcept;

  /// In the child of a fork, where no other thread makes room.
  void reset_after_fork() noexcept { at_it_.store(0, std::memory_order_relaxed); }

 private:
  enum class Turn : std::uint8_t { kOurs, kWasAnothers, kInterrupted };
  Turn begin() noexcept;
  bool try_begin(std::uint32_t& at_it) noexcept;
  void end() noexcept;
  template <typename IsEnough>
  bool give_back_the_most(IsEnough is_enough) noexcept;
  template <typename IsEnough>
  bool give_back_all(IsEnough is_enough) noexcept;

  std::atomic<std::uint64_t> vain_until_ns_{0};  // when all may be asked again; relaxed: a hint
  std::atomic<Holders*> holders_{nullptr};       // release when some are added, acquire to read
  // The thread that lets others give back, 0 if there is none: the rest wait for it, and then see
  // what is held no more. acquire and release pair with each other.
  std::atomic<std::uint32_t> at_it_{0};
};

}  // namespace strata
