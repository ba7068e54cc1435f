/* batches <count> <objects> <bytes> <order>: so many times, allocates objects of one size and frees
 * them: in order (f), in reverse (r) or in an order without a pattern (x). Only batches() counts. */
#include <stdlib.h>

static void** objects;
static unsigned long* order;

/* Never inlined: callgrind begins and ends with it. */
__attribute__((noinline)) void batches(unsigned long count, unsigned long n, unsigned long bytes) {
  for (unsigned long i = 0; i < count; ++i) {
    for (unsigned long k = 0; k < n; ++k) objects[k] = malloc(bytes);
    for (unsigned long k = 0; k < n; ++k) free(objects[order[k]]);
  }
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const unsigned long count = strtoul(argv[1], NULL, 10);
  const unsigned long n = strtoul(argv[2], NULL, 10);
  const unsigned long bytes = strtoul(argv[3], NULL, 10);
  objects = malloc(n * sizeof *objects);
  order = malloc(n * sizeof *order);
  if (objects == NULL || order == NULL) return 1;
  /* A stride without a common divisor visits all of them. */
  for (unsigned long k = 0; k < n; ++k)
    order[k] = *argv[4] == 'f' ? k : *argv[4] == 'r' ? n - 1 - k : k * 7919 % n;
  for (int warm_up = 0; warm_up < 16; ++warm_up) {
    for (unsigned long k = 0; k < n; ++k) objects[k] = malloc(bytes);
    for (unsigned long k = 0; k < n; ++k) free(objects[order[k]]);
  }
  batches(count, n, bytes);
  return 0;
}
