#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace strata::os {

/// Does the work in a child of fork(). The child ends with the code that the work returns, without
/// exit handlers.
/// \returns  the child's wait status; -1 if there is no child
template <typename Work>
int status_in_child(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work());
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

}  // namespace strata::os
