#include "os/symbol.h"

#include <dlfcn.h>

extern "C" [[gnu::weak]] void __asan_init();

namespace strata::os {

bool find_code(const void* address, CodePlace& out) noexcept {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  out.module = info.dli_fname;
  out.offset = at - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  out.function = info.dli_sname;
  out.function_offset =
      info.dli_sname != nullptr ? at - reinterpret_cast<std::uintptr_t>(info.dli_saddr) : 0;
  return true;
}

bool has_shadow_at_low_addresses() noexcept { return __asan_init != nullptr; }

OpenLibrary next_open_library() noexcept {
  return reinterpret_cast<OpenLibrary>(dlsym(RTLD_NEXT, "dlopen"));
}

int without_deep_binding(int flags) noexcept {
#ifdef RTLD_DEEPBIND
  return flags & ~RTLD_DEEPBIND;
#else
  return flags;
#endif
}

}  // namespace strata::os
