#include "process/run_beside.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "process/blocked_signals.h"

namespace strata::cli {
namespace {

/// \param another  0: none
sigset_t passed_on(int another) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH}) {
    ::sigaddset(&set, signal);
  }
  if (another != 0) ::sigaddset(&set, another);
  return set;
}

}  // namespace

ProcessResult run_beside(const ProcessPlan& plan, const RunMoments& moments, int signal) {
  const BlockedSignals signals(passed_on(signal));
  if (moments.before_start) moments.before_start();
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    signals.restore();
    const int error = become_process(plan);
    [[maybe_unused]] auto written = ::write(error_pipe[1], &error, sizeof error);
    ::_exit(127);
  }
  ::close(error_pipe[1]);
  int exec_error = 0;
  const bool is_refused = ::read(error_pipe[0], &exec_error, sizeof exec_error) > 0;
  ::close(error_pipe[0]);
  if (!is_refused && moments.after_start) moments.after_start();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) != child) {
    siginfo_t info{};
    while (::sigwaitinfo(&signals.set(), &info) < 0) {
    }
    // The terminal sends its signals to the whole foreground group; SIGCHLD usually comes from the
    // kernel.
    if (info.si_code <= 0) ::kill(child, info.si_signo);
  }
  ProcessResult result = end_of(status);
  result.process = child;
  if (is_refused) {
    result.end = ProcessResult::End::kNotStarted;
    result.code = exec_error;
  }
  if (moments.at_end) moments.at_end(result);
  if (is_refused) refuse_start(plan, exec_error);
  return result;
}

}  // namespace strata::cli
