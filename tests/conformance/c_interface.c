/* Every function of strata/malloc.h, used as a C program would. */
#define _POSIX_C_SOURCE 200809L
#include <strata/malloc.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      return 1;                                               \
    }                                                         \
  } while (0)

enum { kMost = 1 << 16 };
static char text[kMost];

/* Calls the function with standard error in `text`. */
static int catch_errors_of(void (*function)(void)) {
  int ends[2];
  const int before = dup(STDERR_FILENO);
  CHECK(before >= 0 && pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0);
  function();
  CHECK(dup2(before, STDERR_FILENO) >= 0);
  close(before);
  close(ends[1]);
  size_t length = 0;
  for (ssize_t got; (got = read(ends[0], text + length, kMost - 1 - length)) > 0;)
    length += (size_t)got;
  text[length] = '\0';
  close(ends[0]);
  return 0;
}

/* Statistics go to the file of STRATA_STATS_FILE, if there is one, else to standard error. */
static int print_statistics(void) {
  const char* path = getenv("STRATA_STATS_FILE");
  if (path != NULL) remove(path);
  if (catch_errors_of(strata_stats_print) != 0) return 1;
  if (path != NULL) {
    CHECK(text[0] == '\0');
    FILE* file = fopen(path, "r");
    CHECK(file != NULL);
    text[fread(text, 1, kMost - 1, file)] = '\0';
    fclose(file);
  }
  char first[100];
  snprintf(first, sizeof first, "strata: statistics of process %d, in bytes\n", (int)getpid());
  CHECK(strncmp(text, first, strlen(first)) == 0);
  CHECK(strstr(text, "\nstrata: live ") != NULL);
  return 0;
}

/* Like snprintf: the whole length, and as much of it as there is room for. */
static int write_json(size_t (*function)(char*, size_t), char first, char last) {
  const size_t length = function(text, kMost);
  CHECK(length < kMost && length == strlen(text));
  CHECK(text[0] == first && text[length - 1] == last);
  char part[10];
  memset(part, 'x', sizeof part);
  CHECK(function(part, 5) > 5);
  CHECK(memcmp(part, text, 4) == 0 && part[4] == '\0' && part[5] == 'x');
  CHECK(function(NULL, 0) > 500);
  return 0;
}

static void write_to_nowhere(void) {
  if (strata_profile_write("/nowhere/at/all") != 0) abort();
}

static int write_profile(void) {
  CHECK(strata_profile_start(0) == 0);
  CHECK(strata_profile_start(((size_t)1 << 30) + 1) == 0);
  CHECK(strata_profile_start((size_t)1 << 30) == 1);
  CHECK(strata_profile_start(1) == 1);
  strata_free(strata_malloc(100));
  strata_profile_stop();
  strata_profile_stop();
  char name[] = "/tmp/strata-c-interface-XXXXXX";
  const int file = mkstemp(name);
  CHECK(file >= 0 && strata_profile_write(name) == 1);
  close(file);
  FILE* profile = fopen(name, "r");
  CHECK(profile != NULL && fgetc(profile) == 0x1f && fgetc(profile) == 0x8b); /* gzip's */
  fclose(profile);
  CHECK(remove(name) == 0);
  if (catch_errors_of(write_to_nowhere) != 0) return 1;
  CHECK(strcmp(text,
               "strata: warning: the profile /nowhere/at/all is not written: "
               "No such file or directory\n") == 0);
  return 0;
}

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

  if (print_statistics() != 0) return 1;
  if (write_json(strata_stats_json, '{', '}') != 0) return 1;
  if (write_json(strata_options_json, '[', ']') != 0) return 1;
  return write_profile();
}
