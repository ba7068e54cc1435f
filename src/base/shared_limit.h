#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/backoff.h"
#include "base/limited_sum.h"

namespace strata {

/// The limits of what several mallocs hold together, in a process with user heaps beside its
/// malloc. Each also counts by itself (MemoryLimit). Before the hard limit refuses anything, the
/// others give back their idle memory: make_room(). Above the soft limit they do so at once:
/// keep_to_soft_limit().
///
/// The holder with the most idle memory gives it back first, whoever asks; then the next, until
/// there is enough.
///
/// The malloc and the heaps may be linked from two copies of this code, which then share one
/// object. So its layout is fixed, as is LimitedSum's: the name strata_shared_limit_1() has the
/// version.
/// \threads  any number at once
class SharedLimit : public LimitedSum {
 public:
  /// One holder's idle memory. Holders are ordered by it, the one with most first.
  struct Idle {
    std::size_t bytes;  ///< 0: there is none
    std::size_t which;  ///< of these holders
  };
  /// Some holders of memory under the limit. The object stays for ever. Function pointers, not
  /// virtual functions: the code may be another copy's.
  /// \threads  any, with no lock held
  struct Holders {
    /// The first holder after `last` in the order.
    Idle (*next_idle)(Idle last) noexcept;
    /// The first holder from a number on, whatever it has idle; kNone if there is none.
    std::size_t (*next)(std::size_t from) noexcept;
    /// Has one holder give back everything idle, including caches. It may have ended meanwhile.
    void (*give_back)(std::size_t which) noexcept;
    Holders* following = nullptr;
  };

  constexpr SharedLimit() noexcept = default;

  /// From now on asks these holders to give back. Does nothing if it does so already: in the child
  /// of a fork, a thread does again what another one may have done.
  /// \threads  for the same holders one at a time
  void add(Holders& holders) noexcept;

  /// Called with no lock held, after `bytes` could not be had. Has the holders give back idle
  /// memory until there is room for that and some bookkeeping, or waits while another thread does
  /// so. A signal handler that interrupted its own thread in this finds no room.
  /// \returns  true if a new try may succeed
  bool make_room(std::size_t bytes) noexcept;

  /// Called on slow paths with no lock held. Above the soft limit, has everything idle given back,
  /// once per some growth.
  /// \param new_idle_bytes  the caller's, as for LimitedSum::is_pass_due()
  /// \returns  true if all have given back what they can, and it is not enough
  bool keep_to_soft_limit(std::size_t new_idle_bytes) noexcept;

  /// Called in the child of a fork, where no other thread makes room.
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

  Backoff all_backoff_;                     // from asking all
  std::atomic<Holders*> holders_{nullptr};  // release when some are added, acquire to read
  // The thread that has others give back, 0 if there is none. The rest wait for it, and then see
  // what is no longer held: acquire and release pair with each other.
  std::atomic<std::uint32_t> at_it_{0};
};

}  // namespace strata
