#pragma once

#include <cstdint>

/// \file  Hints to the compiler, in a language version that has no attributes for them.

namespace strata::detail {

/// Which way a branch goes. Not likely() and unlikely(): programs may have macros of these names.
constexpr bool is_likely(bool condition) noexcept { return __builtin_expect(condition, true); }
constexpr bool is_unlikely(bool condition) noexcept { return __builtin_expect(condition, false); }

/// States what the compiler cannot see; undefined behaviour if it is false.
constexpr void promise(bool condition) noexcept {
  if (!condition) __builtin_unreachable();
}

inline std::uintptr_t address_of(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

}  // namespace strata::detail
