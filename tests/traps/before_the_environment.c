/* Options count although the first allocation comes before the C library knows the environment: it
   is made in the program's preinit array. before_the_environment, under full checks */

#include <malloc.h>
#include <stdlib.h>

static void* from_preinit;

static void allocate_in_preinit(int count, char** arguments, char** environment) {
  (void)count, (void)arguments, (void)environment;
  from_preinit = malloc(100);
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
