// A C program that uses musl and the malloc.
//
//   musl_program works          uses all of it, and ends with status 0
//   musl_program double_free    dies
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
  ((condition) ? (void)0 : (fprintf(stderr, "%d: %s is false\n", __LINE__, #condition), _exit(1)))

enum { kThreads = 4, kRounds = 20000, kHeld = 256 };

// Weak: the program is not linked with a preloaded library, which has them.
__attribute__((weak)) size_t strata_stats_json(char* buffer, size_t size);
__attribute__((weak)) int strata_release_memory(void);

// Blocks go from the thread that allocated them to another one that frees them.
static void* handed_over[kThreads][kHeld];
static pthread_barrier_t barrier;
static pthread_key_t key;

static void frees_at_exit(void* block) {
  void* another = malloc(100);  // after the malloc's own destructor, perhaps
  CHECK(another != NULL);
  free(another);
  free(block);
}

static void* work(void* argument) {
  const size_t number = (size_t)(uintptr_t)argument;
  unsigned char* held[kHeld] = {0};
  size_t sizes[kHeld] = {0};
  unsigned random = 12345u + (unsigned)number;
  CHECK(pthread_setspecific(key, malloc(1000)) == 0);
  for (int round = 0; round < kRounds; ++round) {
    random = random * 1103515245u + 12345u;
    const size_t at = (random >> 8) % kHeld;
    const size_t bytes = (random >> 16) % (round % 64 == 0 ? 300000 : 2000) + 1;
    for (size_t i = 0; i < sizes[at]; i += sizes[at] / 3 + 1)
      CHECK(held[at][i] == (unsigned char)at);
    if (round % 3 == 0) {
      unsigned char* moved = realloc(held[at], bytes);
      CHECK(moved != NULL);
      held[at] = moved;
    } else {
      free(held[at]);
      held[at] = malloc(bytes);
      CHECK(held[at] != NULL);
    }
    sizes[at] = bytes;
    memset(held[at], (int)at, bytes);
  }
  memcpy(handed_over[number], held, sizeof held);
  pthread_barrier_wait(&barrier);
  for (size_t i = 0; i < kHeld; ++i) free(handed_over[(number + 1) % kThreads][i]);
  return NULL;
}

static void start_and_join_threads(void) {
  pthread_t threads[kThreads];
  CHECK(pthread_barrier_init(&barrier, NULL, kThreads) == 0);
  for (size_t i = 0; i < kThreads; ++i)
    CHECK(pthread_create(&threads[i], NULL, work, (void*)(uintptr_t)i) == 0);
  for (size_t i = 0; i < kThreads; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void check_alignment(void) {
  for (size_t alignment = sizeof(void*); alignment <= 1 << 20; alignment *= 2) {
    void* block = NULL;
    CHECK(posix_memalign(&block, alignment, 3 * alignment) == 0);
    CHECK((uintptr_t)block % alignment == 0);
    void* other = aligned_alloc(alignment, alignment);
    CHECK(other != NULL && (uintptr_t)other % alignment == 0);
    free(other);
    free(block);
  }
}

static void check_limits(void) {
  volatile size_t huge = SIZE_MAX / 2;
  errno = 0;
  CHECK(malloc(huge + 100) == NULL && errno == ENOMEM);
  errno = 0;
  CHECK(calloc(huge, 3) == NULL && errno == ENOMEM);
  char* zero = calloc(1000, 1000);
  for (int i = 0; i < 1000000; i += 4000) CHECK(zero[i] == 0);
  zero = realloc(zero, 50000000);
  CHECK(zero != NULL && malloc_usable_size(zero) >= 50000000);
  zero[49999999] = 1;
  free(zero);
}

// Functions of the C library that allocate.
static void use_the_library(void) {
  char* line = NULL;
  size_t capacity = 0;
  FILE* file = tmpfile();
  CHECK(file != NULL && fputs("one line\n", file) >= 0);
  rewind(file);
  CHECK(getline(&line, &capacity, file) == 9);
  free(line);
  fclose(file);
  char* copy = strdup("a copy");
  CHECK(copy != NULL && malloc_usable_size(copy) >= 7);
  free(copy);
}

static void* churn(void* stop) {
  while (!__atomic_load_n((int*)stop, __ATOMIC_RELAXED)) free(malloc(5000));
  return NULL;
}

static void fork_while_a_thread_allocates(void) {
  int stop = 0;
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, churn, &stop) == 0);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      for (size_t bytes = 1; bytes < 10000000; bytes *= 3) free(malloc(bytes));
      pthread_t another;
      int stopped = 1;
      if (pthread_create(&another, NULL, churn, &stopped) != 0) _exit(2);
      pthread_join(another, NULL);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  CHECK(pthread_join(thread, NULL) == 0);
}

static void check_statistics(void) {
  static char text[1 << 16];
  CHECK(strata_stats_json != NULL);
  const size_t length = strata_stats_json(text, sizeof text);
  CHECK(length > 100 && length < sizeof text && text[0] == '{');
  void* block = malloc(3000000);
  memset(block, 1, 3000000);
  free(block);
  CHECK(strata_release_memory() == 1);
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  if (strcmp(arguments[1], "double_free") == 0) {
    void* block = malloc(100);
    void* volatile again = block;
    free(block);
    free(again);
    return 0;
  }
  CHECK(pthread_key_create(&key, frees_at_exit) == 0);
  check_alignment();
  check_limits();
  use_the_library();
  start_and_join_threads();
  fork_while_a_thread_allocates();
  check_statistics();
  puts("all is well");
  return 0;
}
