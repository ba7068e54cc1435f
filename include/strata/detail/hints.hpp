#pragma once

#include <cstdint>

/// \file  What the headers of the shelf tell the compiler, in a language version that has no
/// attributes for it.

namespace strata::detail {

/// Which way a branch goes.
constexpr bool likely(bool condition) noexcept { return __builtin_expect(condition, true); }
constexpr bool unlikely(bool condition) noexcept { return __builtin_expect(condition, false); }

/// What it cannot see; undefined if it is not so.
constexpr void assume(bool condition) noexcept {
  if (!condition) __builtin_unreachable();
}

inline std::uintptr_t address_of(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

}  // namespace strata::detail
