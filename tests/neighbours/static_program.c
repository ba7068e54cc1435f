/* A C program without any shared library: the malloc is Strata's and no other is there, for the
   program and for the C library, in threads, across fork and at exit. Dies at the end of a double
   free if asked to.

   usage: static_program [double-free] */

#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition, sentence) \
  ((condition) ? (void)0 : (fprintf(stderr, "%d: %s\n", __LINE__, sentence), _exit(1)))

/* The C library's malloc, if its object is in the program. */
extern void* __libc_malloc(size_t) __attribute__((weak));
extern size_t strata_usable_size(const void*);

static int g_at_exit;

static void* work(void* unused) {
  for (size_t bytes = 1; bytes < 5000000; bytes *= 2) {
    char* p = malloc(bytes);
    CHECK(p != NULL && strata_usable_size(p) >= bytes, "malloc is not Strata's");
    memset(p, 1, bytes);
    p = realloc(p, bytes * 2);
    CHECK(p[bytes - 1] == 1, "realloc");
    free(p);
  }
  char* text = NULL;
  CHECK(asprintf(&text, "%01000d", 1) == 1000 && strata_usable_size(text) > 1000, "asprintf");
  free(text);
  text = strdup("a string");
  CHECK(strata_usable_size(text) == 16, "strdup");
  free(text);
  return unused;
}

static void at_exit(void) {
  work(NULL);
  ++g_at_exit;
}

__attribute__((destructor)) static void after_exit(void) {
  work(NULL);
  if (g_at_exit != 1) _exit(1);
}

int main(int argc, char** argv) {
  CHECK(__libc_malloc == NULL, "the C library's malloc is in the program, too");
  /* First, while the thread has room in its cache for every size: the sentence is that of the cache. */
  if (argc > 1 && strcmp(argv[1], "double-free") == 0) {
    void* volatile p = malloc(100);
    free(p);
    free(p);
  }
  atexit(at_exit);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "pthread_create");
  work(NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  const pid_t child = fork();
  if (child == 0) {
    alarm(300); /* a deadlock ends then */
    work(NULL);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0, "the child died or hung");
  CHECK(mallinfo2().arena != 0, "mallinfo2");
  return 0;
}
