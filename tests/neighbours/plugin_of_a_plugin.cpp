// A library loads another one by its name alone, which only the first one's RUNPATH can find. Code
// between a program and dlopen must not be mistaken for the caller.
//
// usage: plugin_of_a_plugin <library> <name of the other>

#include <dlfcn.h>
#include <unistd.h>

#include "support/check.h"

int main(int argc, char** argv) {
  CHECK(argc == 3, "usage: plugin_of_a_plugin <library> <name of the other>");
  CHECK(dlopen(argv[2], RTLD_NOW) == nullptr, "this program itself finds the other library");
  void* const outer = dlopen(argv[1], RTLD_NOW);
  CHECK(outer != nullptr, "the library cannot be loaded");
  const auto load = reinterpret_cast<void* (*)(const char*)>(dlsym(outer, "outer_load"));
  CHECK(load != nullptr, "a function of the library is missing");
  void* const inner = load(argv[2]);
  if (inner == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(inner != nullptr, "the library does not find the other one");
  CHECK(dlsym(inner, "plugin_work") != nullptr, "it is another library");
  return 0;
}
