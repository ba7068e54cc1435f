/* strata-tiny [fd]: a program that hardly does anything. The scenario `startup` starts it again and
   again. Allocates a hundred blocks, checks that each is its own, frees them; writes its resident
   bytes to `fd` if there is one. Plain C, so that nothing but malloc is started. */
#include "tiny/tiny.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kBlocks = 100 };

static size_t size_of(size_t i) { return 8 + i * 8; }

static int work(void) {
  static unsigned char* blocks[kBlocks];
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks[i] = malloc(size_of(i));
    if (blocks[i] == NULL) return STRATA_TINY_REFUSED;
    blocks[i][0] = blocks[i][size_of(i) - 1] = (unsigned char)i;
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    if (blocks[i][0] != i || blocks[i][size_of(i) - 1] != i) return STRATA_TINY_CORRUPTED;
    free(blocks[i]);
  }
  return 0;
}

/* Allocates nothing, and so it reads and writes by hand. */
static void tell_memory(int fd) {
  char text[128];
  int file = open("/proc/self/statm", O_RDONLY);
  if (file < 0) return;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return;
  text[length] = '\0';
  char* resident = text;
  strtol(text, &resident, 10);
  int count =
      snprintf(text, sizeof text, "%ld", strtol(resident, NULL, 10) * sysconf(_SC_PAGESIZE));
  if (write(fd, text, (size_t)count) != count) return;
}

int main(int argc, char** argv) {
  int status = work();
  if (argc > 1) tell_memory((int)strtol(argv[1], NULL, 10));
  return status;
}
