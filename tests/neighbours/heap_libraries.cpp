// Each library, and the program if it can, uses heaps while all the others have some, too. The
// linker gives everybody the same copy of an inline function. What it calls must know everybody's
// heaps.
//
// usage: heap_libraries <library>...

#include <dlfcn.h>
#include <unistd.h>

#include <functional>

#include "support/check.h"

using UseHeaps = void(const std::function<void()>& meanwhile);

extern "C" [[gnu::weak]] UseHeaps use_heaps;

namespace {

void use_all(char** libraries) {
  if (*libraries == nullptr) return;
  void* const library = dlopen(*libraries, RTLD_NOW | RTLD_GLOBAL);
  CHECK(library != nullptr, dlerror());
  const auto use = reinterpret_cast<UseHeaps*>(dlsym(library, "use_heaps"));
  CHECK(use != nullptr, "the library has no heaps");
  use([libraries] { use_all(libraries + 1); });
}

}  // namespace

int main(int count, char** arguments) {
  CHECK(count > 1, "usage");
  const auto use_libraries = [arguments] { use_all(arguments + 1); };
  if (use_heaps != nullptr) {
    use_heaps(use_libraries);
  } else {
    use_libraries();
  }
  return 0;
}
