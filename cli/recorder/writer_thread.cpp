#include "recorder/writer_thread.h"

#include "os/wait.h"
#include "recorder/system.h"

namespace strata::recorder {

void WriterThread::announce() noexcept {
  constexpr std::uint32_t kNotYetKnown = ~std::uint32_t{0};
  number_.store(kNotYetKnown, std::memory_order_relaxed);
  is_running_.store(true, std::memory_order_release);
}

bool WriterThread::start(Round* round, void* context, int file) noexcept {
  round_ = round;
  context_ = context;
  file_ = file;
  if (start_hidden_thread(run, this, number_)) return true;
  is_running_.store(false, std::memory_order_relaxed);
  return false;
}

void WriterThread::forget() noexcept {
  is_running_.store(false, std::memory_order_relaxed);
  is_asleep_.store(false, std::memory_order_relaxed);
  requests_.store(kNone, std::memory_order_relaxed);
  holders_waiting_.store(0, std::memory_order_relaxed);  // they belong to the other process
}

void WriterThread::wake() noexcept {
  bell_.fetch_add(1, std::memory_order_seq_cst);
  if (is_asleep_.load(std::memory_order_seq_cst)) os::wake_all(os::futex_word(bell_));
}

void WriterThread::ask(Request request) noexcept {
  if (!is_running()) return;
  requests_.fetch_or(request, std::memory_order_relaxed);
  const std::uint32_t own = asked_.fetch_add(1, std::memory_order_release) + 1;
  wake();
  while (is_running()) {
    const std::uint32_t answered = answered_.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(answered - own) >= 0) return;
    os::wait_on(os::futex_word(answered_), answered, kLongestSleepNs);
  }
}

void WriterThread::hold() noexcept {
  holders_waiting_.fetch_add(1, std::memory_order_relaxed);
  round_lock_.lock_while([this] { return is_running(); });
  holders_waiting_.fetch_sub(1, std::memory_order_relaxed);
  os::wake_all(os::futex_word(holders_waiting_));
}

bool WriterThread::is_last_thread() const noexcept { return end_of_others(process_stat_) >= 0; }

int WriterThread::run(void* self) noexcept {
  auto& thread = *static_cast<WriterThread*>(self);
  close_all_but(thread.file_);
  thread.process_stat_ = open_process_stat();
  while (thread.do_round()) {
  }
  const int end = end_of_others(thread.process_stat_);
  if (end >= 0) end_process(end);
  return 0;
}

/// Does a round, then sleeps.
/// \returns  False if it was the last.
bool WriterThread::do_round() noexcept {
  const std::uint32_t bell = bell_.load(std::memory_order_acquire);
  const std::uint32_t holders = holders_waiting_.load(std::memory_order_relaxed);
  if (holders != 0) os::wait_on(os::futex_word(holders_waiting_), holders, kLongestSleepNs);
  round_lock_.lock();
  // acquire pairs with ask()'s release: the bits of these requests are visible, or already taken.
  const std::uint32_t asked = asked_.load(std::memory_order_acquire);
  const std::uint64_t sleep_ns =
      round_(context_, requests_.exchange(kNone, std::memory_order_relaxed));
  const bool is_last = sleep_ns == kNoFurtherRound;
  if (is_last) is_running_.store(false, std::memory_order_release);
  if (is_last || asked != answered_.load(std::memory_order_relaxed)) {
    answered_.store(asked, std::memory_order_release);
    os::wake_all(os::futex_word(answered_));
  }
  round_lock_.unlock();
  if (is_last) return false;
  is_asleep_.store(true, std::memory_order_seq_cst);
  if (bell_.load(std::memory_order_seq_cst) == bell) {
    os::wait_on(os::futex_word(bell_), bell, sleep_ns);
  }
  is_asleep_.store(false, std::memory_order_relaxed);
  return true;
}

}  // namespace strata::recorder
