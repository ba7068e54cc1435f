#pragma once

#include <cstdint>

/// \file  What the headers of the shelf tell the compiler, in a language version that has no
/// attributes for it.

namespace strata::detail {

/// Which way a branch goes. Not likely() and unlikely(): a program may have macros of these names.
constexpr bool is_likely(bool condition) noexcept { return __builtin_expect(condition, true); }
constexpr bool is_unlikely(bool condition) noexcept { return __builtin_expect(condition, false); }

/// What it cannot see; undefined if it is not so.
constexpr void promise(bool condition) noexcept {
  if (!condition) __builtin_unreachable();
}

inline std::uintptr_t address_of(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

}  // namespace strata::detail
