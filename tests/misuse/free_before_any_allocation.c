/* The process's first call of the malloc is a wrong free, before even the libraries are
 * initialised. */
#include <stdio.h>
#include <stdlib.h>

static char in_static_storage[64];

static void free_too_early(void) {
  char* volatile p = in_static_storage;
  free(p);
}

__attribute__((used, section(".preinit_array"))) static void (*before_all)(void) = free_too_early;

int main(void) {
  fputs("nothing was noticed\n", stderr);
  return 0;
}
