/* The process's first allocation is the C library's: it makes room for the 33rd exit handler, under
   the lock of all of them. A library's constructor registers 40, before the program has begun.
   exit_handlers_first

   Compiled with IS_LIBRARY, it is that library. */

#include <stdlib.h>

#ifdef IS_LIBRARY
static int handlers;

static void at_exit(void) { free(malloc(100)); }

__attribute__((constructor)) static void register_handlers(void) {
  for (int i = 0; i < 40; ++i) handlers += atexit(at_exit) == 0 ? 1 : 0;
}

int count_handlers(void) { return handlers; }
#else
int count_handlers(void);

int main(void) { return count_handlers() == 40 ? 0 : 1; }
#endif
