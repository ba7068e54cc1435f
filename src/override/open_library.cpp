// dlopen, in the shared library only: it removes RTLD_DEEPBIND. A library that is loaded with this
// flag finds the C library's malloc before ours. It then gives the blocks of one malloc to the
// other, as PHP's extensions do, and the process dies in the C library's free.

#include <strata/malloc.h>

#include "malloc/process.h"
#include "os/symbol.h"

#if defined(__clang__)
#define STRATA_JUMPS
#define STRATA_JUMP [[clang::musttail]]
#else
#define STRATA_JUMPS __attribute__((optimize("O2")))
#define STRATA_JUMP
#endif

/// The C library's dlopen takes its caller's address from the stack: it searches the caller's own
/// paths, and the library goes where its caller is. So this must be a jump, in every build.
extern "C" STRATA_API STRATA_JUMPS void* dlopen(const char* file, int flags) noexcept {
  const strata::os::OpenLibrary next = strata::os::next_open_library();
  if (next == nullptr) return nullptr;
  const bool is_kept = strata::g_malloc.options().deep_bind == strata::Options::DeepBind::kKeep;
  STRATA_JUMP return next(file, is_kept ? flags : strata::os::without_deep_binding(flags));
}
