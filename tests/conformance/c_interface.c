/* The strata_ functions, used as a C program would. */
#include <strata/malloc.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (0)

int main(void) {
  char* p = strata_malloc(100);
  CHECK(p != NULL);
  CHECK(strata_usable_size(p) >= 100);
  memset(p, 7, 100);
  p = strata_realloc(p, 1000);
  CHECK(p != NULL && p[0] == 7 && p[99] == 7);
  strata_free(p);

  p = strata_calloc(10, 10);
  CHECK(p != NULL);
  for (int i = 0; i < 100; ++i) CHECK(p[i] == 0);
  strata_free_sized(p, 100);

  p = strata_aligned_alloc(4096, 10);
  CHECK(p != NULL && (uintptr_t)p % 4096 == 0);
  strata_free(p);
  errno = 0;
  CHECK(strata_aligned_alloc(24, 10) == NULL && errno == EINVAL);

  CHECK(strata_usable_size(NULL) == 0);
  strata_free(NULL);
  p = strata_malloc(64u << 20);
  CHECK(p != NULL);
  memset(p, 1, 64u << 20);
  strata_free(p);
  CHECK(strata_release_memory() == 1);
  CHECK(strata_release_memory() == 0);
  return 0;
}
