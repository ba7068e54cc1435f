/* The first blocks of a process: they lie in the library's own variables, before there is a heap,
   and are like all others in what they promise. first_blocks
   [many|thread|look|large|filter|strict|limit|crowd|forks|option] */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HAS_PRCTL
int prctl(int operation, ...) { return operation == PR_GET_NO_NEW_PRIVS ? 0 : -1; }
#endif

static void expect(int holds, const char* sentence) {
  if (holds) return;
  if (write(STDERR_FILENO, sentence, strlen(sentence)) < 0) _exit(2);
  _exit(1);
}

/* Whether a file has this among its variables: then it is not on a heap. */
static int is_variable(const void* block) {
  Dl_info info;
  return dladdr(block, &info) != 0;
}

static int is_filled_with(const unsigned char* block, unsigned char value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (block[i] != value) return 0;
  }
  return 1;
}

static void use_first_blocks(void) {
  unsigned char* a = malloc(100);
  expect(is_variable(a), "the first block is on a heap\n");
  expect(malloc_usable_size(a) >= 100, "it is too small\n");
  memset(a, 1, 100);
  unsigned char* b = calloc(50, 1000);
  expect(is_variable(b) && is_filled_with(b, 0, 50000), "calloc's is not zero\n");
  memset(b, 2, 50000);
  a = realloc(a, 300);
  expect(is_variable(a) && is_filled_with(a, 1, 100), "realloc's lost its contents\n");
  unsigned char* c = aligned_alloc(4096, 100);
  expect(is_variable(c) && (uintptr_t)c % 4096 == 0, "it is not aligned\n");
  free(b);
  expect(is_filled_with(a, 1, 100), "what was next to a freed block changed\n");
  unsigned char* d = calloc(1, 40000);
  expect(is_filled_with(d, 0, 40000), "calloc's is not zero after a free\n");
  memset(d, 3, 40000);
  free(d);
  d = calloc(1, 40000);
  expect(is_filled_with(d, 0, 40000), "calloc's is not zero in memory that was used\n");
  void* empty = malloc(0);
  expect(empty != NULL && malloc_usable_size(empty) == 0, "a block of 0 bytes has some\n");
  expect(is_variable(malloc(1)), "a block of 0 bytes made a heap\n");
  void* aligned = NULL;
  expect(posix_memalign(&aligned, 16, 100) == 0 && is_variable(aligned), "a small alignment did\n");
  free(aligned);
  free(empty);
  free(realloc(a, 50));
  free(c);
  free(d);
  free(NULL);
}

static void fork_and_do_the_same(void) {
  void* kept = malloc(1000);
  const pid_t child = fork();
  expect(child >= 0, "fork failed\n");
  if (child == 0) {
    use_first_blocks();
    free(kept);
    _exit(0);
  }
  int status = -1;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child failed\n");
  free(kept);
}

/* Enough for a heap to begin. Blocks from before and after it stay what they are. */
static void outlive_the_start(void) {
  static unsigned char* blocks[3000];
  int on_a_heap = 0;
  for (int i = 0; i < 3000; ++i) {
    blocks[i] = malloc(50 + i % 50);
    memset(blocks[i], i, 50);
    on_a_heap += !is_variable(blocks[i]);
  }
  expect(is_variable(blocks[0]) && on_a_heap > 3000 - 1024 && on_a_heap < 3000 - 1000 + 24,
         "1024 allocations are served without a heap\n");
  for (int i = 0; i < 3000; i += 3) {
    blocks[i] = realloc(blocks[i], 2000);
    expect(!is_variable(blocks[i]), "realloc's is not on the heap\n");
  }
  for (int i = 0; i < 3000; ++i) {
    expect(is_filled_with(blocks[i], i, 50), "contents changed\n");
    free(blocks[i]);
  }
  void* block = malloc(50);
  expect(!is_variable(block), "a block that came back was used again\n");
  free(block);
}

static void* allocate(void* from_outside) {
  free(from_outside);
  return malloc(100);
}

static void start_a_thread(void) {
  pthread_t thread;
  void* block = NULL;
  expect(pthread_create(&thread, NULL, allocate, malloc(100)) == 0, "no thread\n");
  expect(pthread_join(thread, &block) == 0 && block != NULL, "it did not allocate\n");
  expect(!is_variable(block), "a second thread's block is not on a heap\n");
  free(block);
}

/* More than the first blocks may be. */
static void allocate_much(void) {
  for (int i = 0; i < 3000; ++i) expect(malloc(100) != NULL, "malloc failed\n");
}

/* Each of these calls tries to begin the heap, and looks whether its block is one of that. */
static void* ask_for_a_heap(void* unused) {
  (void)unused;
  for (int i = 0; i < 3000; ++i) free(realloc(NULL, 200000));
  return NULL;
}

static atomic_int g_is_over;
static void* ask_until_it_is_over(void* unused) {
  while (!atomic_load(&g_is_over)) ask_for_a_heap(unused);
  return NULL;
}

/* A child that waits for a lock of a thread that it does not have is ended. */
static void fork_and_ask(void) {
  const pid_t child = fork();
  expect(child >= 0, "fork failed\n");
  if (child == 0) {
    alarm(60);
    ask_for_a_heap(NULL);
    _exit(0);
  }
  int status = -1;
  expect(waitpid(child, &status, 0) == child && status == 0, "a child waited for ever\n");
}

/* Leaves room for a few threads and the tables of a heap, but not for its memory. */
static void limit_addresses(void) {
  char text[64] = "";
  const int file = open("/proc/self/statm", O_RDONLY);
  expect(read(file, text, sizeof text - 1) > 0,
         "the system does not say how many addresses it uses\n");
  close(file);
  const rlim_t most = strtoul(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) + (3 << 19);
  const struct rlimit limit = {most, most};
  expect(setrlimit(RLIMIT_AS, &limit) == 0, "no limit\n");
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "option") == 0) {
    expect(!is_variable(malloc(100)), "with an option the first block is not on a heap\n");
    return 0;
  }
  use_first_blocks();
  fork_and_do_the_same();
  if (strcmp(what, "many") == 0) outlive_the_start();
  if (strcmp(what, "thread") == 0) start_a_thread();
  if (strcmp(what, "look") == 0) {
    const size_t before = mallinfo2().uordblks;
    void* block = malloc(5000);
    expect(mallinfo2().uordblks >= before + 5000, "who looks sees no block\n");
    free(block);
  }
  if (strcmp(what, "large") == 0) {
    expect(is_variable(malloc(100000)), "there is a heap too soon\n");
    expect(!is_variable(malloc(200000)), "a large block is not on a heap\n");
  }
  if (strcmp(what, "filter") == 0) {
    expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no prctl\n");
    expect(!is_variable(malloc(100)), "who may set a filter has no heap\n");
    expect(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "prctl lost its result\n");
    errno = 0;
    expect(prctl(-1, 0, 0, 0, 0) == -1 && errno == EINVAL, "prctl lost its error\n");
  }
  if (strcmp(what, "strict") == 0) {
    expect(prctl(PR_SET_SECCOMP, 1, 0, 0, 0) == 0, "no filter\n");
    allocate_much();
    syscall(SYS_exit, 0); /* exit_group() would be refused */
  }
  if (strcmp(what, "limit") == 0) {
    const struct rlimit none = {1 << 20, 1 << 20};
    expect(setrlimit(RLIMIT_AS, &none) == 0, "no limit\n");
    allocate_much();
    errno = 0;
    expect(malloc(4 << 20) == NULL && errno == ENOMEM, "there is more than there can be\n");
  }
  if (strcmp(what, "crowd") == 0 || strcmp(what, "forks") == 0) {
    const int is_forking = strcmp(what, "forks") == 0;
    pthread_t threads[4];
    pthread_attr_t small;
    pthread_attr_init(&small);
    const long least = sysconf(_SC_THREAD_STACK_MIN);
    expect(pthread_attr_setstacksize(&small, least > 1 << 16 ? (size_t)least : 1 << 16) == 0,
           "no small stack\n");
    limit_addresses();
    void* (*const run)(void*) = is_forking ? ask_until_it_is_over : ask_for_a_heap;
    for (int i = 0; i < 4; ++i)
      expect(pthread_create(&threads[i], &small, run, NULL) == 0, "no thread\n");
    for (int i = 0; is_forking && i < 50; ++i) fork_and_ask();
    atomic_store(&g_is_over, 1);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    expect(is_variable(malloc(200000)), "there is a heap: this test shows nothing\n");
  }
  return 0;
}
