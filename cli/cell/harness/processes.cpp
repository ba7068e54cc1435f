#include "harness/processes.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <system_error>

namespace strata::cell {
namespace {

void take_a_nap() noexcept {
  timespec nap{0, 200'000};
  ::nanosleep(&nap, nullptr);
}

}  // namespace

Processes::~Processes() {
  for (const pid_t copy : copies_) ::kill(copy, SIGKILL);
  for (const pid_t copy : copies_) ::waitpid(copy, nullptr, 0);
}

void Processes::arrive_and_wait() noexcept {
  // release, acquire: writes before a gate are visible once all copies have arrived
  std::atomic_ref(gate_[0].arrived).fetch_add(1, std::memory_order_release);
  while (std::atomic_ref(gate_[0].opened).load(std::memory_order_acquire) == passed_) take_a_nap();
  ++passed_;
}

void Processes::wait_for_all() noexcept {
  const int all = static_cast<int>(copies_.size()) * (gate_[0].opened + 1);
  while (std::atomic_ref(gate_[0].arrived).load(std::memory_order_acquire) < all) {
    end_with_a_copy();
    take_a_nap();
  }
}

void Processes::open_gate() noexcept {
  std::atomic_ref(gate_[0].opened).fetch_add(1, std::memory_order_release);
}

bool Processes::is_copy_after_fork() {
  const pid_t parent = ::getpid();
  const pid_t copy = ::fork();
  if (copy < 0) throw std::system_error(errno, std::generic_category(), "another process");
  if (copy > 0) {
    copies_.push_back(copy);
    return false;
  }
  copies_.clear();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) end_copy();
  return true;
}

void Processes::end_copy() noexcept { ::_exit(0); }

void Processes::end_with_a_copy() noexcept {
  int status = 0;
  const pid_t ended = ::waitpid(-1, &status, WNOHANG);
  if (ended <= 0) return;
  std::erase(copies_, ended);
  this->~Processes();
  if (WIFSIGNALED(status)) {
    ::signal(WTERMSIG(status), SIG_DFL);
    ::raise(WTERMSIG(status));
  }
  ::_exit(WEXITSTATUS(status));
}

}  // namespace strata::cell
