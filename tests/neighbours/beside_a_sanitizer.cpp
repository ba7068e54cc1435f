// AddressSanitizer's runtime is preloaded before Strata: malloc is the sanitizer's, Strata's heap
// lies outside the sanitizer's shadow, and each of the two gets back what it handed out.

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>

#include "support/check.h"

namespace {

template <typename Function>
Function* find(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  CHECK(function != nullptr, name);
  return function;
}

}  // namespace

int main() {
  auto* const is_poisoned = find<int(const void*)>("__asan_address_is_poisoned");
  auto* const strata_malloc = find<void*(std::size_t)>("strata_malloc");
  auto* const strata_free = find<void(void*)>("strata_free");
  for (const std::size_t bytes : {100, 5000, 300'000, 5'000'000}) {
    char* const block = static_cast<char*>(opaque(malloc(bytes)));
    CHECK(is_poisoned(block + bytes) != 0, "malloc is not the sanitizer's");
    char* const own = static_cast<char*>(opaque(strata_malloc(bytes)));
    CHECK(own != nullptr, "Strata has no memory");
    std::memset(own, 1, bytes);
    std::memcpy(block, own, bytes);
    strata_free(own);
    free(block);
  }
  return 0;
}
