#include "base/shared_limit.h"

#include "os/clock.h"
#include "os/threads.h"
#include "os/wait.h"

namespace strata {
namespace {

// Chosen: an object may need a span of its class, of up to a MiB, and both need a chunk of
// bookkeeping.
constexpr std::size_t kBesideABlock = std::size_t{2} << 20;
// Chosen: either the first few have enough, or it is spread over many and all are asked.
constexpr int kMostOfTheLargest = 16;
// Chosen: how long a thread sleeps at a time while another makes room.
constexpr std::uint64_t kNapNs = 1'000'000;

bool is_before(SharedLimit::Idle a, SharedLimit::Idle b) noexcept {
  return a.bytes != b.bytes ? a.bytes > b.bytes : a.which < b.which;
}

}  // namespace

void SharedLimit::add(Holders& holders) noexcept {
  for (const Holders* each = holders_.load(std::memory_order_acquire); each != nullptr;
       each = each->following) {
    if (each == &holders) return;
  }
  holders.following = holders_.load(std::memory_order_relaxed);
  while (!holders_.compare_exchange_weak(holders.following, &holders, std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
}

/// \param at_it  set to the thread that makes room
bool SharedLimit::try_begin(std::uint32_t& at_it) noexcept {
  at_it = 0;
  return at_it_.compare_exchange_strong(at_it, os::thread_id(), std::memory_order_acquire);
}

/// Waits while another thread makes room. In a signal handler that interrupted that very thread, it
/// would wait for ever.
SharedLimit::Turn SharedLimit::begin() noexcept {
  std::uint32_t at_it;
  if (try_begin(at_it)) return Turn::kOurs;
  if (at_it == os::thread_id()) return Turn::kInterrupted;
  const auto* const word = os::futex_word(at_it_);
  for (; at_it != 0; at_it = at_it_.load(std::memory_order_acquire))
    os::wait_on(word, at_it, kNapNs);
  return Turn::kWasAnothers;
}

void SharedLimit::end() noexcept {
  at_it_.store(0, std::memory_order_release);
  os::wake_all(os::futex_word(at_it_));
}

/// Asks the holders with most idle memory, one after the other.
template <typename IsEnough>
bool SharedLimit::give_back_the_most(IsEnough is_enough) noexcept {
  Idle last{kNone, 0};
  for (int i = 0; i < kMostOfTheLargest && !is_enough(); ++i) {
    Idle first{0, 0};
    Holders* of_first = nullptr;
    for (Holders* each = holders_.load(std::memory_order_acquire); each != nullptr;
         each = each->following) {
      const Idle next = each->next_idle(last);
      if (next.bytes == 0 || (of_first != nullptr && !is_before(next, first))) continue;
      first = next;
      of_first = each;
    }
    if (of_first == nullptr) break;
    of_first->give_back(first.which);
    last = first;
  }
  return is_enough();
}

/// Asks all holders, since much may be idle in caches, which no figure counts.
template <typename IsEnough>
bool SharedLimit::give_back_all(IsEnough is_enough) noexcept {
  for (Holders* each = holders_.load(std::memory_order_acquire); each != nullptr;
       each = each->following) {
    for (std::size_t which = each->next(0); which != kNone && !is_enough();
         which = each->next(which + 1))
      each->give_back(which);
  }
  return is_enough();
}

bool SharedLimit::make_room(std::size_t bytes) noexcept {
  const std::size_t wanted = bytes < kNone - kBesideABlock ? bytes + kBesideABlock : bytes;
  const auto is_enough = [&]() noexcept { return has_room(wanted); };
  if (is_enough()) return true;
  if (const Turn turn = begin(); turn != Turn::kOurs) return turn == Turn::kWasAnothers;
  const std::size_t before = held_bytes();
  bool has_found = give_back_the_most(is_enough);
  const std::uint64_t began = os::monotonic_ns();
  if (!has_found && !all_backoff_.is_on(began)) {
    has_found = give_back_all(is_enough);
    const std::uint64_t now = os::monotonic_ns();
    if (!has_found) all_backoff_.begin(now, now - began);
  }
  end();
  return has_found || held_bytes() < before;
}

bool SharedLimit::keep_to_soft_limit(std::size_t new_idle_bytes) noexcept {
  std::uint32_t at_it;
  if (!is_pass_due(new_idle_bytes) || !try_begin(at_it)) return false;
  const auto is_enough = [this]() noexcept { return !is_above_soft(); };
  const bool is_kept = give_back_the_most(is_enough) || give_back_all(is_enough);
  note_pass();
  end();
  return !is_kept;
}

}  // namespace strata
