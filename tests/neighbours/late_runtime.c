/* A program in C loads a library in C++, as interpreters do: the C++ runtime comes after the malloc.

   usage: late_runtime <library> */

#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  void (*const run_out_of_memory)(void) = (void (*)(void))dlsym(library, "run_out_of_memory");
  if (run_out_of_memory == NULL) return 2;
  run_out_of_memory();
  return 0;
}
