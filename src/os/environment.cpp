#include "os/environment.h"

#include <sys/auxv.h>

#include <cstring>

extern "C" {
extern char** environ;
// The C library's: empty until it has begun, which is when it has an environment.
extern char* program_invocation_short_name;
// glibc's: where the kernel has put the number of the arguments, then these, then the environment.
// In static programs it is elsewhere, but there the C library begins before anything else.
[[gnu::weak]] extern void* __libc_stack_end;
}

namespace strata::os {
namespace {

char** entries() noexcept {
  if (environ != nullptr || &__libc_stack_end == nullptr || *program_invocation_short_name != '\0')
    return environ;
  auto* const arguments = static_cast<char**>(__libc_stack_end) + 1;
  const auto count = reinterpret_cast<std::uintptr_t>(arguments[-1]);
  return arguments + count + 1;
}

}  // namespace

const char* environment_variable(const char* name) noexcept {
  // Not getenv: this runs before the C library may be ready and must not lock.
  for (std::size_t i = 0; const char* entry = environment_entry(i); ++i) {
    const char* at = name;
    while (*at != '\0' && *at == *entry) ++at, ++entry;
    if (*at == '\0' && *entry == '=') return entry + 1;
  }
  return nullptr;
}

const char* environment_entry(std::size_t index) noexcept {
  char** const all = entries();
  return all != nullptr ? all[index] : nullptr;
}

bool has_environment() noexcept { return environ != nullptr; }

bool has_foreign_rights() noexcept { return getauxval(AT_SECURE) != 0; }

std::uint64_t random_seed() noexcept {
  std::uint64_t words[2] = {0x9e3779b97f4a7c15u, 0};
  if (const auto* random = reinterpret_cast<const void*>(getauxval(AT_RANDOM))) {
    std::memcpy(words, random, sizeof words);
  }
  return words[0] ^ (words[1] * 0x9e3779b97f4a7c15u);
}

}  // namespace strata::os
