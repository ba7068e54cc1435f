/* The process's first call of the malloc is a wrong free. Nothing before main allocates in C. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  static char in_static_storage[64];
  char* volatile p = in_static_storage;
  free(p);
  fputs("nothing was noticed\n", stderr);
  return 0;
}
