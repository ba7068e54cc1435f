/* heaps_by_call FILE OTHER: a profile of heaps that begins, ends and is written by calls. */
#include <strata/heap.h>

#include <stdio.h>
#include <unistd.h>

int main(int argc, char** argv) {
  strata_heap_options options = {0};
  options.name = "session";
  strata_heap* heap = strata_heap_create(&options, NULL);
  if (argc != 3 || heap == NULL) return 1;
  void* before = strata_heap_malloc(heap, 50);
  if (!strata_heap_profile_start(1)) return 2;
  void* kept = strata_heap_malloc(heap, 123);
  void* freed = strata_heap_malloc(heap, 1000);
  strata_heap_profile_stop();
  void* after = strata_heap_malloc(heap, 456);
  if (before == NULL || kept == NULL || freed == NULL || after == NULL) return 3;
  strata_heap_free(heap, before);
  strata_heap_free(heap, freed); /* subtracted after the stop, too */
  if (!strata_heap_profile_start(1) || strata_heap_calloc(heap, 10, 10) == NULL) return 4;
  strata_heap_profile_stop();
  if (!strata_heap_profile_write(argv[1])) return 5;
  /* Another rate, another profile. */
  if (!strata_heap_profile_start((size_t)1 << 30)) return 6;
  strata_heap_profile_stop();
  if (!strata_heap_profile_write(argv[2])) return 7;
  printf("%d\n", (int)getpid());
  return 0;
}
