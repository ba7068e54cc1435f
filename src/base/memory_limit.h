#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/limited_sum.h"
#include "base/shared_limit.h"

namespace strata {

/// How much memory the heap holds, and how much it may hold.
///
/// Held is what may occupy RAM: pages in spans and idle ones, huge blocks and kept ranges, and
/// mappings for bookkeeping. A block counts from its allocation on, touched or not. Not held:
/// reserved address space, decommitted pages and holes of spans.
///
/// It may also count in a limit shared with other heaps, which is about their sum. Either limit may
/// refuse a request. Each Engine owns one.
///
/// \threads  Any number at once. All fields are relaxed: they are sums, and order nothing.
class MemoryLimit {
 public:
  struct Statistics : LimitedSum::Statistics {
    std::uint64_t passes;           ///< releases of everything idle, above the soft limit
    std::uint64_t returned;         ///< bytes that those passes released
    std::uint64_t refusals;         ///< by the hard limit, own or shared
    LimitedSum::Statistics shared;  ///< all zero where none is shared
  };

  constexpr MemoryLimit() noexcept = default;
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

  /// In bytes, 0 for none. Call before the first allocation.
  void configure(std::size_t soft, std::size_t hard) noexcept { own_.configure(soft, hard); }
  /// From now on counts what is held in `shared` as well. Call once, before there is a second
  /// thread.
  void share(SharedLimit& shared) noexcept {
    shared_ = &shared;
    shared.hold(held_bytes());
  }
  SharedLimit* shared() const noexcept { return shared_; }
  /// From now on counts here alone; what is held is lost.
  void stop_sharing() noexcept {
    if (shared_ != nullptr) shared_->let_go(held_bytes());
    shared_ = nullptr;
  }
  /// Whether so many bytes fit below the hard limit, whatever the shared one says.
  bool has_room(std::size_t bytes) const noexcept { return own_.has_room(bytes); }
  /// Whether so many bytes fit below both limits.
  bool has_room_everywhere(std::size_t bytes) const noexcept {
    return has_room(bytes) && (shared_ == nullptr || shared_->has_room(bytes));
  }

  /// Whether so many bytes fit below both if nothing else is held.
  bool allows(std::size_t bytes) const noexcept {
    return own_.allows(bytes) && (shared_ == nullptr || shared_->allows(bytes));
  }
  void note_refusal() noexcept { refusals_.fetch_add(1, std::memory_order_relaxed); }

  /// Counts `bytes` more as held.
  /// \returns  False, and counts a refusal, if the hard limit forbids it.
  bool try_hold(std::size_t bytes) noexcept {
    const bool is_granted = try_hold_unasked(bytes);
    if (!is_granted) note_refusal();
    return is_granted;
  }
  /// The same for memory that the program did not ask for: counts no refusal.
  bool try_hold_unasked(std::size_t bytes) noexcept {
    if (bytes == 0) return true;
    // What the shared limit has no room for is never in its own sum, not even for an instant.
    if (shared_ != nullptr && !shared_->has_room(bytes)) return false;
    if (!own_.try_hold(bytes)) return false;
    if (shared_ == nullptr || shared_->try_hold(bytes)) return true;
    own_.take_back(bytes);
    return false;
  }
  /// Undoes a grant whose memory could not be had.
  void take_back(std::size_t bytes) noexcept {
    own_.take_back(bytes);
    if (shared_ != nullptr) shared_->take_back(bytes);
  }
  /// Counts `bytes` more as held, even above the limit.
  void hold(std::size_t bytes) noexcept {
    if (shared_ != nullptr) shared_->hold(bytes);
    own_.hold(bytes);
  }
  void let_go(std::size_t bytes) noexcept {
    own_.let_go(bytes);
    if (shared_ != nullptr) shared_->let_go(bytes);
  }

  /// In the child of a fork: sets what is held to `bytes`, whatever the threads that no longer
  /// exist were about to hold or to let go. Accepted: the shared sum stays too large if one of them
  /// was just between the two sums, some instructions long.
  void recount(std::size_t bytes) noexcept {
    const std::size_t counted = held_bytes();
    if (bytes > counted) hold(bytes - counted);
    if (bytes < counted) let_go(counted - bytes);
  }

  std::size_t held_bytes() const noexcept { return own_.held_bytes(); }
  bool is_above_soft() const noexcept {
    return own_.is_above_soft() || (shared_ != nullptr && shared_->is_above_soft());
  }

  /// Whether everything idle, `idle_bytes`, should be released now, because of its own soft limit.
  bool wants_release(std::size_t idle_bytes) noexcept {
    return own_.is_pass_due(new_idle(idle_bytes));
  }
  /// Ends a pass that released `returned` bytes and left `idle_bytes`: the next is due after some
  /// growth.
  void note_pass(std::size_t returned, std::size_t idle_bytes) noexcept {
    passes_.fetch_add(1, std::memory_order_relaxed);
    returned_.fetch_add(returned, std::memory_order_relaxed);
    own_.note_pass();
    note_left(idle_bytes);
  }
  /// The same for a shared soft limit.
  /// \param idle_bytes  returns what is idle; called after a pass as well
  template <typename IdleBytes>
  void keep_to_shared_soft_limit(IdleBytes idle_bytes) noexcept {
    if (shared_ == nullptr || !shared_->is_above_soft()) return;
    if (shared_->keep_to_soft_limit(new_idle(idle_bytes()))) note_left(idle_bytes());
  }
  /// Whether there is a limit, its own or a shared one.
  bool is_any() const noexcept {
    return own_.is_any() || (shared_ != nullptr && shared_->is_any());
  }
  bool has_hard_limit() const noexcept {
    return own_.has_hard_limit() || (shared_ != nullptr && shared_->has_hard_limit());
  }
  bool has_soft_limit() const noexcept {
    return own_.has_soft_limit() || (shared_ != nullptr && shared_->has_soft_limit());
  }

  Statistics statistics() const noexcept {
    return {own_.statistics(), passes_.load(std::memory_order_relaxed),
            returned_.load(std::memory_order_relaxed), refusals_.load(std::memory_order_relaxed),
            shared_ != nullptr ? shared_->statistics() : LimitedSum::Statistics{}};
  }

 private:
  /// The idle bytes since the last pass. What that pass left cannot be released: it is locked, or
  /// its source cannot decommit. It comes and goes with every block; once half of it is in use,
  /// what follows is new.
  std::size_t new_idle(std::size_t idle_bytes) noexcept {
    const std::size_t left = idle_left_.load(std::memory_order_relaxed);
    if (idle_bytes < left / 2) note_left(idle_bytes);
    return idle_bytes > left ? idle_bytes - left : 0;
  }
  void note_left(std::size_t idle_bytes) noexcept {
    idle_left_.store(idle_bytes, std::memory_order_relaxed);
  }

  LimitedSum own_;
  SharedLimit* shared_ = nullptr;
  std::atomic<std::size_t> idle_left_{0};
  std::atomic<std::uint64_t> passes_{0};
  std::atomic<std::uint64_t> returned_{0};
  std::atomic<std::uint64_t> refusals_{0};
};

}  // namespace strata
