/* The options are read once, with one warning, even if there is no room for the heap, and each
   allocation tries to start it. To be run with a limit in percent and a name that is no option. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static long (*real_syscall)(long number, ...);
static volatile long files_opened, texts_written; /* malloc is declared not to call back */

/* Replaces the C library's, through which the malloc makes its system calls. */
long syscall(long number, ...) {
  long values[6];
  va_list arguments;
  va_start(arguments, number);
  for (int i = 0; i < 6; ++i) values[i] = va_arg(arguments, long);
  va_end(arguments);
  files_opened += number == SYS_openat;
  texts_written += number == SYS_write;
  return real_syscall(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

/* Before the malloc's own constructor, which reads the options. */
static void leave_no_room(void) {
  *(void**)&real_syscall = dlsym(RTLD_NEXT, "syscall");
  const struct rlimit none = {4096, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &none) != 0) abort();
}
__attribute__((used, section(".preinit_array"))) static void (*before_all)(void) = leave_no_room;

int main(void) {
  if (malloc(3000000) != NULL) return 2;
  const long opened = files_opened;
  for (int i = 0; i < 100; ++i) free(malloc(100));
  if (files_opened != opened || opened == 0 || texts_written != 1) {
    fprintf(stderr, "%ld files opened, %ld of them late; %ld warnings\n", files_opened,
            files_opened - opened, texts_written);
    return 1;
  }
  const struct rlimit much = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &much) != 0) return 3;
  void* const block = malloc(3000000);
  if (block == NULL) return 4;
  free(block);
  return texts_written == 1 ? 0 : 5;
}
