#include "harness/processes.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <ctime>
#include <system_error>

namespace strata::cell {
namespace {

/// Sleeps while the word has this value, at most for a tenth of a second, in which nobody is told
/// that a process of the other side has ended.
void sleep_while(const std::uint32_t& word, std::uint32_t value) noexcept {
  const timespec most{0, 100'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &most, nullptr, 0);
}

void add_one_and_wake(std::uint32_t& word) noexcept {
  std::atomic_ref(word).fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint32_t value_of(std::uint32_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace

void Processes::start(int count, const std::function<void(int index)>& body) {
  copies_.reserve(static_cast<std::size_t>(count));
  std::signal(SIGCHLD, SIG_DFL);  // ignored, nobody could tell that a copy has ended
  const pid_t parent = ::getpid();
  for (int i = 0; i < count; ++i) {
    const pid_t copy = ::fork();
    if (copy < 0) throw std::system_error(errno, std::generic_category(), "another process");
    if (copy > 0) {
      copies_.push_back(copy);
      continue;
    }
    copies_.clear();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) body(i);
    ::_exit(0);
  }
}

void Processes::arrive_and_wait() noexcept {
  add_one_and_wake(gate_[0].arrived);
  while (value_of(gate_[0].opened) == passed_) sleep_while(gate_[0].opened, passed_);
  ++passed_;
}

void Processes::wait_for_all() noexcept {
  const auto all = static_cast<std::uint32_t>(copies_.size()) * (value_of(gate_[0].opened) + 1);
  for (;;) {
    const std::uint32_t arrived = value_of(gate_[0].arrived);
    if (arrived == all) return;
    end_if_a_copy_did();
    sleep_while(gate_[0].arrived, arrived);
  }
}

void Processes::open_gate() noexcept { add_one_and_wake(gate_[0].opened); }

void Processes::end_if_a_copy_did() noexcept {
  int status = 0;
  const pid_t ended = ::waitpid(-1, &status, WNOHANG);
  if (ended == 0) return;
  std::erase(copies_, ended);
  end_all();
  if (ended < 0) ::_exit(1);
  if (!WIFSIGNALED(status)) ::_exit(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  std::signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  std::raise(number);
  ::_exit(128 + number);
}

void Processes::end_all() noexcept {
  for (const pid_t copy : copies_) ::kill(copy, SIGKILL);
  for (const pid_t copy : copies_) ::waitpid(copy, nullptr, 0);
  copies_.clear();
}

}  // namespace strata::cell
