/* profiled <case> [argument]: allocates what the test knows of. */
#include <strata/malloc.h>

#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void* volatile kept[200000];

void* make_small(size_t bytes) { return malloc(bytes); }
void* make_large(size_t bytes) { return malloc(bytes); }
void* keep_small(size_t i) { return kept[i] = make_small(100); }

extern void __register_frame(void* table);

/* An unwind table of code that a program makes while it runs: a common part, and a function's. */
static unsigned char tables[2][64] __attribute__((aligned(8))) = {
    {20, 0,    0, 0, 0, 0, 0, 0, 1, 0,  1, 0x78, 16, 12, 7,
     8,  0x90, 1, 0, 0, 0, 0, 0, 0, 20, 0, 0,    0,  28},
    {20, 0,    0, 0, 0, 0, 0, 0, 1, 0,  1, 0x78, 16, 12, 7,
     8,  0x90, 1, 0, 0, 0, 0, 0, 0, 20, 0, 0,    0,  28},
};

static void register_table(unsigned char* table) {
  static char code[64];
  const void* begin = code;
  const size_t bytes = sizeof code;
  memcpy(table + 32, &begin, sizeof begin);
  memcpy(table + 40, &bytes, sizeof bytes);
  __register_frame(table);
}

/* libgcc sorts each table in memory of malloc, under a lock, when it next looks for a function: when
   the stack of a call is taken, and when the program takes its own. */
static void register_tables(void) {
  void* frames[8];
  void* const block = malloc(100);
  backtrace(frames, 8);
  register_table(tables[0]);
  free(block);
  register_table(tables[1]);
  backtrace(frames, 8);
}

/* 100 000 objects of 100 bytes, of which every fourth stays; 50 blocks of 1 MB, one stays. */
static void fill(void) {
  for (size_t i = 0; i < 100000; ++i) {
    keep_small(i);
    if (i % 4 != 0) free(kept[i]);
  }
  for (int i = 0; i < 50; ++i) {
    void* block = make_large(1000000);
    if (i != 0) free(block);
  }
}

/* Three leaks: 30 times 1000 bytes, one of 500 000, one of 7. */
void leak(void) {
  for (size_t i = 0; i < 30; ++i) kept[i] = make_small(1000);
  kept[30] = make_large(500000);
  kept[31] = calloc(7, 1);
  free(make_small(50));
  free(make_large(5000000));
}

static atomic_int storms;
static void on_alarm(int signal) {
  (void)signal;
  atomic_fetch_add(&storms, 1);
}

static void* work(void* argument) {
  for (size_t i = 0; i < 30000; ++i) {
    void* p = make_small(i % 3000);
    p = realloc(p, i % 2000 + 1);
    free(p);
  }
  return argument;
}

/* Threads allocate while libraries come and go and a timer interrupts everybody. */
static int storm(const char* plugin) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, NULL);
  pthread_t threads[3];
  for (int t = 0; t < 3; ++t) pthread_create(&threads[t], NULL, work, NULL);
  for (int i = 0; i < 100; ++i) {
    void* library = dlopen(plugin, RTLD_NOW);
    if (library == NULL) return 1;
    void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(library, "plugin_allocate");
    void* p = allocate(100);
    if (p == NULL) return 1;
    if (i != 0) free(p);
    dlclose(library);
  }
  for (int t = 0; t < 3; ++t) pthread_join(threads[t], NULL);
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  return atomic_load(&storms) > 0 ? 0 : 1;
}

static void* write_profile(void* path) { return strata_profile_write(path) == 1 ? path : NULL; }

static void* end(void* unused) {
  (void)unused;
  exit(0);
}

/* A thread that has the least stack that there is. */
static void* run_on_a_small_stack(void* (*body)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
  pthread_t thread;
  void* result = NULL;
  if (pthread_create(&thread, &attributes, body, argument) == 0) pthread_join(thread, &result);
  return result;
}

static pthread_key_t last_key;
static int rounds;

/* The first call of the malloc in the last of the thread's exit hooks. */
static void end_late(void* value) {
  if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS)
    pthread_setspecific(last_key, value);
  else
    kept[0] = make_small(100);
}
static void* end_unnoticed(void* value) {
  pthread_setspecific(last_key, value);
  return NULL;
}

/* A thread whose end nobody can notice, and whose stack is gone. */
static int lose_a_thread(void) {
  free(make_large(1000000)); /* the malloc has its key before this one */
  if (pthread_key_create(&last_key, end_late) != 0) return 1;
  const size_t bytes = 1 << 20;
  void* stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return 1;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, bytes);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, end_unnoticed, &rounds) != 0) return 1;
  pthread_join(thread, NULL);
  munmap(stack, bytes);
  return kept[0] != NULL ? 0 : 1;
}

/* Once main() has ended: the kernel's files of the first thread are empty then. */
static void* leak_alone(void* unused) {
  char first;
  for (int left_ms = 10000;; --left_ms) {
    if (left_ms == 0) _exit(3);
    usleep(1000);
    FILE* maps = fopen("/proc/self/maps", "r");
    if (maps == NULL) break;
    const size_t count = fread(&first, 1, 1, maps);
    fclose(maps);
    if (count == 0) break;
  }
  leak();
  return unused; /* the last thread: exit(0) */
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* name = argv[1];
  if (strcmp(name, "fill") == 0) {
    fill();
  } else if (strcmp(name, "leak") == 0) {
    leak();
  } else if (strcmp(name, "main_ends") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, leak_alone, NULL) != 0) return 1;
    pthread_exit(NULL);
  } else if (strcmp(name, "fork") == 0) {
    keep_small(0);
    const pid_t child = fork();
    if (child == 0) {
      kept[1] = make_large(2000000);
      return 0;
    }
    printf("%d %d\n", (int)getpid(), (int)child);
    int status;
    waitpid(child, &status, 0);
    return status;
  } else if (strcmp(name, "signal") == 0) {
    fill();
    raise(SIGUSR2);
    /* Until the file is there: it takes its name when it is complete. */
    while (access(argv[2], F_OK) != 0) usleep(1000);
    _exit(0);
  } else if (strcmp(name, "calls") == 0) {
    fill();
    if (strata_profile_start(0) != 0 || strata_profile_start(1) != 1) return 1;
    kept[0] = make_small(123);
    strata_profile_stop();
    kept[1] = make_small(321);
    if (strata_profile_write(argv[2]) != 1) return 1;
    if (strata_profile_write("") != 0) return 1;
    return strata_profile_write("/nowhere/at/all") == 0 ? 0 : 1;
  } else if (strcmp(name, "lost_thread") == 0) {
    if (lose_a_thread() != 0 || strata_profile_start(1) != 1) return 1;
    kept[0] = make_small(123);
    strata_profile_stop();
    return strata_profile_write(argv[2]) == 1 ? 0 : 1;
  } else if (strcmp(name, "small_stack") == 0) {
    fill();
    if (run_on_a_small_stack(write_profile, argv[2]) == NULL) return 1;
    run_on_a_small_stack(end, NULL);
    return 1;
  } else if (strcmp(name, "tables") == 0) {
    register_tables();
  } else if (strcmp(name, "fault") == 0) {
    alarm(10); /* it ends in any case */
    free(make_small(1));
    *(volatile int*)NULL = 1;
  } else if (strcmp(name, "storm") == 0) {
    return storm(argv[2]);
  } else {
    return 2;
  }
  return 0;
}
