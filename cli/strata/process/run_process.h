#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "process/environment.h"
#include "process/signal_watch.h"

namespace strata::cli {

/// A program to start: file, arguments, environment, streams.
struct ProcessPlan {
  std::string program;                 ///< a path, from find_program()
  std::vector<std::string> arguments;  ///< the first is argv[0]
  Environment environment;
  int output_fd = -1;              ///< for standard output and error; -1: inherit ours
  double timeout_s = 0;            ///< 0: no limit
  std::vector<int> inherited_fds;  ///< stay open in the program, under the same numbers
  /// Called while the program runs; returns the seconds until the next call. Empty: not called.
  std::function<double()> watch;
};

/// How a process ended and what it used. The usage covers the process and all descendants that it
/// waited for; the peak is that of the largest single one.
struct ProcessResult {
  enum class End {
    kExited,       ///< `code` is its exit status
    kKilled,       ///< `code` is the signal
    kStopped,      ///< by the terminal, with signal `code`; then we ended it
    kTimedOut,     ///< ended by us
    kInterrupted,  ///< ended by us, on request
    kNotStarted,   ///< `code` is errno
  };
  End end = End::kNotStarted;
  int code = 0;
  int process = 0;  ///< set by run_beside()
  /// strata-launch was killed, usually with its whole group; only `end` and `code` are known.
  bool lost_its_group = false;
  double started_s = 0;  ///< CLOCK_MONOTONIC, just before execve
  double elapsed_s = 0;
  double cpu_s = 0;
  std::uint64_t peak_rss_bytes = 0;
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;

  bool succeeded() const noexcept { return end == End::kExited && code == 0; }
};

/// Converts a wait status.
ProcessResult end_of(int status);

/// Starts the program in its own process group and waits for it. If our standard input is a file,
/// the program gets a fresh view of it, else an empty input: many runs cannot each reread a
/// terminal or a pipe. The time runs from just before execve until the end is seen. strata-launch,
/// a small program, does the start, so that the peak is the command's own. A timeout or
/// interruption asks the whole group to end, and kills it after a second. When the command has
/// ended, the rest of its group is killed at once. If we are killed, so is the group; this requires
/// that the calling thread lives as long as the process.
ProcessResult run_process(const ProcessPlan& plan, SignalWatch& signals);

/// Runs a small system program for its answer, for at most a few seconds.
/// \returns  Its standard output and error, in the order of writing; empty if it could not be
///           started. Ctrl-C meanwhile ends this process, too.
std::string ask_program(const std::string& program, std::vector<std::string> arguments,
                        Environment environment);

/// The path of this executable.
/// \errors  std::runtime_error if /proc is not mounted.
std::string own_path();

/// The path of a helper program of this build or installation, such as "strata-launch".
/// \errors  std::runtime_error if it is missing, and those of own_path().
std::string helper_path(const std::string& name);

/// Describes the end: "exit status 3", "killed by SIGSEGV", "still running after 10 s".
std::string describe_end(const ProcessResult& result, double timeout_s);

/// Replaces this process with the program, so exit status, signals, streams and job control are the
/// program's own. Returns errno if execve fails.
int become_process(const ProcessPlan& plan);

/// Reports that become_process() failed.
/// \errors  UsageError with the shell's status, always.
[[noreturn]] void refuse_start(const ProcessPlan& plan, int error);

/// Seconds of CLOCK_MONOTONIC.
double now_s();

}  // namespace strata::cli
