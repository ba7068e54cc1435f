/* Options count although the first allocation comes before the C library knows the environment: it
   is made in the program's preinit array. before_the_environment [BYTES], under full checks; BYTES:
   of that allocation, which so many begin the heap with */

#include <malloc.h>
#include <stdlib.h>

static void* from_preinit;

static void allocate_in_preinit(int count, char** arguments, char** environment) {
  (void)environment;
  from_preinit = malloc(count > 1 ? strtoul(arguments[1], NULL, 10) : 100);
}

__attribute__((used,
               section(".preinit_array"))) static void (*before_all)(int, char**,
                                                                     char**) = allocate_in_preinit;

int main(void) {
  void* block = malloc(5000);
  const int has_checks = malloc_usable_size(block) == 5000;
  free(block);
  free(from_preinit);
  return has_checks ? 0 : 1;
}
