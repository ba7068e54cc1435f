/* Linked against Strata's malloc: both names must lead to the same allocator. */
#include <strata/malloc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  char* ours = strata_malloc(100);
  char* theirs = malloc(100);
  if (ours == NULL || theirs == NULL) return 1;
  memset(ours, 'a', 100);
  memset(theirs, 'b', 100);
  /* Dies with a sentence if plain malloc is still the C library's. */
  if (strata_usable_size(theirs) < 100) return 2;
  free(ours);
  strata_free(theirs);
  puts("consumer ok");
  return 0;
}
