/* Linked against the heaps alone, from C: no C++ runtime is needed. */
#include <strata/heap.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  strata_heap_options options = {0};
  options.name = "session";
  options.hard_limit_bytes = 8 << 20;
  strata_heap* heap = strata_heap_create(&options, NULL);
  if (heap == NULL) return 1;
  char* ours = strata_heap_malloc(heap, 100);
  char* theirs = malloc(100);
  if (ours == NULL || theirs == NULL) return 2;
  memset(ours, 'a', 100);
  if (!strata_heap_owns(heap, ours) || strata_heap_owns(heap, theirs)) return 3;
  free(theirs);
  if (strata_heap_malloc(heap, 16 << 20) != NULL) return 4;
  strata_heap_destroy(heap);
  puts("consumer ok");
  return 0;
}
