#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// \file  Runs a program. The kernel asks this process about each system call before it does it,
/// and this process makes one of them fail with an error, or all from one on.
/// \source  seccomp(2), SECCOMP_RET_USER_NOTIF: needs no privilege and no ptrace, counts the calls
///          of all threads in one order, and sees their arguments.

/// Kinds of system calls that fail in the same ways.
struct CallKind {
  const char* name;
  long number;
  bool (*is_it)(const std::uint64_t* arguments);  ///< nullptr: the number says it
  std::vector<int> errors;                        ///< empty: it cannot fail
};
const std::vector<CallKind>& call_kinds();
/// \returns  an index into call_kinds(); its size for a call that fits no row
std::size_t kind_of(long number, const std::uint64_t* arguments);

/// Which calls fail: the n-th of a kind, counted from 1 over all threads while faults are allowed.
struct Fault {
  std::size_t kind;
  int error;
  std::size_t nth;
  bool and_all_later;
};

/// When calls count and may fail.
enum class Window {
  kMarked,   ///< between the marks of the program (marks.h)
  kStartUp,  ///< from execve to its first mark
};

struct Run {
  std::vector<std::size_t> counts;  ///< of each kind, in the window
  std::vector<long> unknown;        ///< numbers of calls in the window that no row names
  std::size_t failed = 0;           ///< how many calls were made to fail
  int status = 0;                   ///< as waitpid has it
  bool is_late = false;             ///< killed after a minute
  std::string output;               ///< standard output and error
};

/// Whether the kernel lets a process watch another one's calls.
/// \returns  why not, or an empty text
std::string why_not_supervised();

/// Runs the command to its end.
/// \param fault  nullptr: no call fails
Run run_supervised(const std::vector<std::string>& command, Window window, const Fault* fault);
