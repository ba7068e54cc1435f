#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "process/environment.h"
#include "process/signal_watch.h"

namespace strata::cli {

/// A program to start: the file, the words it sees, its environment, its streams.
struct ProcessPlan {
  std::string program;                 ///< a path, as find_program gives it
  std::vector<std::string> arguments;  ///< the first is the name under which the program is started
  Environment environment;
  int output_fd = -1;              ///< standard output and error go there; -1: to ours
  double timeout_s = 0;            ///< 0: without limit
  std::vector<int> inherited_fds;  ///< stay open in it under their numbers
  /// Called while it runs; says in how many seconds to be called again. Empty: only waited for.
  std::function<double()> watch;
};

/// What a process did and what it used. The usage is that of the process and of all descendants
/// that it waited for; the peak is that of the largest single one of them.
struct ProcessResult {
  enum class End {
    kExited,       ///< `code` is its exit status
    kKilled,       ///< `code` is the signal
    kStopped,      ///< by the terminal, with `code`, and then ended by us
    kTimedOut,     ///< ended by us
    kInterrupted,  ///< ended by us, on request
    kNotStarted,   ///< `code` is errno
  };
  End end = End::kNotStarted;
  int code = 0;
  /// strata-launch was killed, as a rule with all its group; only `end` and `code` are known.
  bool lost_its_group = false;
  double started_s = 0;  ///< CLOCK_MONOTONIC, just before execve
  double elapsed_s = 0;
  double cpu_s = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;

  bool succeeded() const noexcept { return end == End::kExited && code == 0; }
};

/// How a process ended that waitpid tells of.
ProcessResult end_of(int status);

/// Starts the program in a process group of its own and waits for it. Standard input is a fresh
/// view of ours if that is a file, and empty otherwise: a terminal or a pipe cannot be read anew by
/// each of many runs. The clock runs from the moment before execve to the moment the end is seen.
/// The start goes through strata-launch, a small program, so that the peak is the command's own.
/// On a timeout or an interruption the whole group is asked to end, and after a second killed. What
/// is left of it when the command has ended is killed at once. If we are killed, so is the group:
/// for that, the calling thread must live as long as we do.
ProcessResult run_process(const ProcessPlan& plan, SignalWatch& signals);

/// A helper program of this build or installation, "strata-launch".
/// \errors  std::runtime_error if it is not there.
std::string helper_path(const std::string& name);

/// The end in words: "exit status 3", "killed by SIGSEGV", "still running after 10 s".
std::string describe_end(const ProcessResult& result, double timeout_s);

/// Becomes the program: same process, so its exit status, signals, streams and job control are the
/// command's own. Returns errno, only if the kernel refuses.
int become_process(const ProcessPlan& plan);

/// What is said then.
/// \errors  UsageError with the shell's status, in any case.
[[noreturn]] void refuse_start(const ProcessPlan& plan, int error);

/// Seconds of CLOCK_MONOTONIC.
double now_s();

}  // namespace strata::cli
