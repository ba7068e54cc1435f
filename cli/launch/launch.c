/* strata-launch PARENT OUTCOME_FD SIGNAL_MASK ENVIRONMENT_FD PROGRAM WORD...

   Starts a program for `strata` and tells what it used. It exists because the kernel counts what
   a process was before execve into its peak memory: a child of `strata` itself would never seem
   smaller than `strata`, some 1.3 MiB, more than a small C program needs. This parent is as small
   as a program with a C library can be, so what it tells is the command's own.

   The environment of the command comes in a file without a name, "NAME=VALUE" and a zero byte for
   each entry: a preloaded allocator is loaded into the command and not into this program, and
   nobody else reads it, as all users of the machine could read arguments. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/launch_outcome.h"

enum { kParent = 1, kOutcomeFd, kSignalMask, kEnvironmentFd, kProgram, kFirstWord };

static pid_t parent;

/* The whole process group ends with `strata`, however that ended: nobody waits for it any more. */
static void end_if_orphaned(int signal) {
  (void)signal;
  if (getppid() != parent) kill(0, SIGKILL);
}

static void watch_parent(void) {
  const int parent_died = SIGRTMAX;
  struct sigaction action = {.sa_handler = end_if_orphaned};
  sigaction(parent_died, &action, NULL);
  sigset_t others; /* all other signals: the command may send them to its group */
  sigfillset(&others);
  sigdelset(&others, parent_died);
  sigprocmask(SIG_SETMASK, &others, NULL);
  prctl(PR_SET_PDEATHSIG, parent_died);
  end_if_orphaned(parent_died); /* it may have died before the line above */
}

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

/* The pages are private and written here: the command's own count of page faults has none of them.
   NULL if they cannot be had. */
static char** read_environment(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) return NULL;
  size_t bytes = (size_t)status.st_size;
  char* text = malloc(bytes + 1);
  if (text == NULL || pread(fd, text, bytes, 0) != (ssize_t)bytes) return NULL;
  size_t entries = 0;
  for (size_t i = 0; i < bytes; ++i) entries += text[i] == '\0';
  char** environment = malloc((entries + 1) * sizeof *environment);
  if (environment == NULL) return NULL;
  for (size_t i = 0; i < entries; ++i) {
    environment[i] = text;
    text += strlen(text) + 1;
  }
  environment[entries] = NULL;
  return environment;
}

/* The terminal stops a group in the background that asks for it, and nobody will bring the command
   to the foreground. Other stops have somebody who continues it. */
static int waits_for_terminal(int status) {
  return WIFSTOPPED(status) && (WSTOPSIG(status) == SIGTTIN || WSTOPSIG(status) == SIGTTOU);
}

/* Returns when it has ended, or waits for the terminal; it must be killed then. */
static void wait_for(pid_t child, struct strata_launch_outcome* outcome) {
  for (;;) {
    const pid_t waited = wait4(child, &outcome->status, WUNTRACED, &outcome->usage);
    if (waited < 0 && errno == EINTR) continue;
    if (!WIFSTOPPED(outcome->status) || waits_for_terminal(outcome->status)) return;
  }
}

int main(int argc, char** argv) {
  if (argc <= kFirstWord) return 2;
  parent = atoi(argv[kParent]);
  watch_parent();
  int outcome_fd = atoi(argv[kOutcomeFd]);
  int environment_fd = atoi(argv[kEnvironmentFd]);
  char** environment = read_environment(environment_fd);
  if (environment == NULL) return 2;
  close(environment_fd);
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
    execvpe(argv[kProgram], argv + kFirstWord, environment);
    outcome->exec_error = errno;
    _exit(127);
  }
  wait_for(child, outcome);
  outcome->ended_s = now_s();
  if (write(outcome_fd, outcome, sizeof *outcome) != sizeof *outcome) return 2;
  /* The kernel continues what is stopped in a group whose last parent outside of it ends. */
  if (WIFSTOPPED(outcome->status)) kill(0, SIGKILL);
  return 0;
}
