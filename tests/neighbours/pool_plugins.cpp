// Libraries with pools can be unloaded if they were compiled for that.
//
// usage: pool_plugins <library>

#include <dlfcn.h>
#include <unistd.h>

#include "support/check.h"

int main(int count, char** arguments) {
  CHECK(count == 2, "usage");
  void* const library = dlopen(arguments[1], RTLD_NOW);
  CHECK(library != nullptr, dlerror());
  const auto use_pools = reinterpret_cast<bool (*)()>(dlsym(library, "use_pools"));
  CHECK(use_pools != nullptr, "the library has no pools");
  CHECK(use_pools(), "the pools do not work");
  CHECK(dlclose(library) == 0, "dlclose");
  CHECK(dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) == nullptr, "it is still there");
  return 0;
}
