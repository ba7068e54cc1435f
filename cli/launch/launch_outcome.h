#pragma once

#include <sys/resource.h>

/* What strata-launch tells `strata` about the command it started: one write to a pipe, between two
   programs of the same build. Shared by C and C++. */
struct strata_launch_outcome {
  double started_s;    /* CLOCK_MONOTONIC, just before execve */
  double ended_s;      /* as soon as the end was seen */
  int exec_error;      /* errno of execve; 0 if the command started */
  int status;          /* as wait4 gives it; stopped, if it waits for the terminal */
  struct rusage usage; /* of the command and the descendants it waited for */
};
