#include "os/environment.h"

#include <sys/auxv.h>

#include <cstring>

extern "C" char** environ;

namespace strata::os {

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
  return environ != nullptr ? environ[index] : nullptr;
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
