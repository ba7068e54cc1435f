/* strata-launch OUTCOME_FD SIGNAL_MASK ENTRIES NAME=VALUE... PROGRAM WORD...

   Starts a program for `strata` and tells what it used. It exists because the kernel counts what
   a process was before execve into its peak memory: a child of `strata` itself would never seem
   smaller than `strata`, some 1.3 MiB, more than a small C program needs. This parent is as small
   as a program with a C library can be, so what it tells is the command's own.

   The environment of the command comes as arguments, so that a preloaded allocator is loaded into
   the command and not into this program. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/launch_outcome.h"

enum { kOutcomeFd = 1, kSignalMask, kEntries, kFirstEntry };

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Bit n - 1 stands for signal n. */
static sigset_t mask_of(unsigned long long bits) {
  sigset_t mask;
  sigemptyset(&mask);
  for (int signal = 1; signal <= 64; ++signal) {
    if ((bits >> (signal - 1)) & 1) sigaddset(&mask, signal);
  }
  return mask;
}

int main(int argc, char** argv) {
  if (argc <= kFirstEntry) return 2;
  int outcome_fd = atoi(argv[kOutcomeFd]);
  int entries = atoi(argv[kEntries]);
  char** environment = argv + kFirstEntry;
  char** program = environment + entries + 1; /* after an empty word that ends the entries */
  if (entries < 0 || argc <= kFirstEntry + entries + 2) return 2;
  environment[entries] = NULL;
  fcntl(outcome_fd, F_SETFD, FD_CLOEXEC);

  /* What the child knows of the outcome; shared, because nothing else survives execve. */
  struct strata_launch_outcome* outcome =
      mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (outcome == MAP_FAILED) return 2;
  sigset_t mask = mask_of(strtoull(argv[kSignalMask], NULL, 16));
  pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &mask, NULL);
    outcome->started_s = now_s();
    execvpe(program[0], program + 1, environment);
    outcome->exec_error = errno;
    _exit(127);
  }
  while (wait4(child, &outcome->status, 0, &outcome->usage) < 0 && errno == EINTR) {
  }
  outcome->ended_s = now_s();
  return write(outcome_fd, outcome, sizeof *outcome) == sizeof *outcome ? 0 : 2;
}
