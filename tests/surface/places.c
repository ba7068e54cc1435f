/* Says where blocks of a few sizes lie, and then where the mapping of the first one begins: one address
   a line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void say(uintptr_t address) { printf("%#jx\n", (uintmax_t)address); }

static uintptr_t begin_of_mapping(uintptr_t address) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[1024];
  uintptr_t found = 0;
  while (maps != NULL && found == 0 && fgets(line, sizeof line, maps) != NULL) {
    char* end = line;
    const uintptr_t first = strtoul(line, &end, 16);
    if (address >= first && address < strtoul(end + 1, NULL, 16)) found = first;
  }
  if (maps != NULL) fclose(maps);
  return found;
}

int main(void) {
  static const size_t sizes[] = {16, 100, 1000, 5000, 40000, 600000};
  uintptr_t first = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const uintptr_t block = (uintptr_t)malloc(sizes[i]);
    if (i == 0) first = block;
    say(block);
  }
  say(begin_of_mapping(first));
  return 0;
}
