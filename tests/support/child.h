#pragma once

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/check.h"

/// \file  Work in a child of fork().

// Chosen: no work of these programs takes so long, however busy the machine; so a deadlock ends.
inline constexpr unsigned kPatienceSeconds = 300;

/// Does the work in a child, which ends with status 0 after it.
/// \returns  the child's status, as waitpid() gives it; after a deadlock it is that of SIGALRM
template <typename Work>
int status_in_child(Work&& work) {
  const pid_t child = fork();
  CHECK(child >= 0, "fork failed");
  if (child == 0) {
    alarm(kPatienceSeconds);
    work();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child, "waitpid failed");
  return status;
}

/// Does the work in a child, which must end well.
/// \param what  names the work in the error message
template <typename Work>
void expect_in_child(const char* what, Work&& work) {
  const int status = status_in_child(work);
  if (status != 0) fprintf(stderr, "%s: status %#x\n", what, static_cast<unsigned>(status));
  CHECK(status == 0, "a child died, hung or failed");
}
