/* A program that allocates nothing has no heap, however it ends; fork works before the first
   allocation, and so does the malloc in parent and child after it. */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int has_heap(void) {
  const struct mallinfo2 now = mallinfo2();
  return now.arena != 0 || now.hblkhd != 0;
}

static void expect(int holds, const char* sentence) {
  if (holds) return;
  if (write(STDERR_FILENO, sentence, strlen(sentence)) < 0) _exit(2);
  _exit(1);
}

static void allocate(void) {
  void* volatile block = malloc(100);
  expect(block != NULL, "malloc failed\n");
  expect(has_heap(), "there is no heap after an allocation\n");
  free(block);
}

int main(void) {
  expect(!has_heap(), "there is a heap before the first allocation\n");
  const pid_t child = fork();
  expect(child >= 0, "fork failed\n");
  if (child == 0) {
    expect(!has_heap(), "fork made a heap\n");
    allocate();
    return 0;
  }
  int status = -1;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child failed\n");
  expect(!has_heap(), "fork made a heap in the parent\n");
  allocate();
  return 0;
}
