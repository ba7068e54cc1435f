/* hot_pair <count> <bytes>: so many pairs of malloc and free of one size in pairs(), and nothing
 * else there. */
#include <stdlib.h>

/* What is counted. Never inlined: callgrind begins and ends with it. */
__attribute__((noinline)) void pairs(unsigned long count, unsigned long bytes) {
  for (unsigned long i = 0; i < count; ++i) {
    void* volatile p = malloc(bytes);
    free(p);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const unsigned long count = strtoul(argv[1], NULL, 10);
  const unsigned long bytes = strtoul(argv[2], NULL, 10);
  for (int i = 0; i < 8; ++i) free(malloc(bytes)); /* the bin is there */
  void* neighbour = malloc(bytes);
  pairs(count, bytes);
  free(neighbour);
  return 0;
}
