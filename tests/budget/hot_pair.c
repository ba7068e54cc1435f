/* hot_pair <count> <bytes>: so many pairs of malloc and free of one size, and nothing else that
 * counts. */
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const unsigned long count = strtoul(argv[1], NULL, 10);
  const unsigned long bytes = strtoul(argv[2], NULL, 10);
  for (int i = 0; i < 8; ++i) free(malloc(bytes)); /* the bin is there */
  void* neighbour = malloc(bytes);
  for (unsigned long i = 0; i < count; ++i) {
    void* volatile p = malloc(bytes);
    free(p);
  }
  free(neighbour);
  return 0;
}
