#include "os/process.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "os/errors.h"
#include "os/signal_action.h"
#include "os/system_call.h"

#ifdef __GLIBC__
/// What pthread_atfork calls, with the file that the call is in.
extern "C" int __register_atfork(void (*before)(), void (*in_parent)(), void (*in_child)(),
                                 void* file) noexcept;
#endif

namespace strata::os {
namespace {

/// Whether a signal can be handled. A fault's signal usually comes again when its handler returns,
/// without end. Two are the C library's.
bool is_usable(int signal) noexcept {
  switch (signal) {
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
    case 32:
    case 33:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::uint64_t process_id() noexcept {
  return static_cast<std::uint64_t>(system_call::process_id());
}
void abort_process() noexcept { abort(); }

/// As handlers of no file: exit() drops a file's handlers with the file, even in the middle of a
/// fork() by another thread. Then nobody would undo what `before` has done.
bool register_fork_handlers(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
#ifdef __GLIBC__
  return __register_atfork(before, in_parent, in_child, nullptr) == 0;
#else
  return pthread_atfork(before, in_parent, in_child) == 0;
#endif
}

bool handle_signal(int signal, void (*handler)(int)) noexcept {
  const SavedErrno saved;
  struct sigaction now;
  struct sigaction ours {};
  ours.sa_handler = handler;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;
  const bool is_free = is_usable(signal) && exchange_signal_action(signal, nullptr, &now) &&
                       ((now.sa_flags & SA_SIGINFO) == 0 &&
                        (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN));
  return is_free && exchange_signal_action(signal, &ours, nullptr);
}

void let_in_signal(int signal) noexcept {
  const SavedErrno saved;
  system_call::block_signals(SIG_UNBLOCK, system_call::only(signal));
}

bool is_about_filters(int operation) noexcept {
  return operation == PR_SET_SECCOMP || operation == PR_SET_NO_NEW_PRIVS;
}

int control_process(int operation, const unsigned long (&arguments)[4]) noexcept {
  return system_call::control_process(operation, arguments);
}

bool register_exit_handler(void (*handler)()) noexcept { return atexit(handler) == 0; }

}  // namespace strata::os
