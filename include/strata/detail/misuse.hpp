#pragma once

#include <cstddef>

/// \file  How the headers of the toolkit end a program that misuses them. The only part of a pool
/// that is not in its header; a program without our library may define these functions itself.

namespace strata::detail {

/// Writes "strata: <sentence>" to standard error and aborts.
[[noreturn, gnu::cold]] void misuse(const char* sentence) noexcept;

/// Writes "strata: <before><address><after>" to standard error and aborts.
[[noreturn, gnu::cold]] void misuse(const char* before, const void* address,
                                    const char* after) noexcept;

/// Writes one line about objects that were never destroyed, and returns.
[[gnu::cold]] void report_leftovers(std::size_t count, const void* first) noexcept;

}  // namespace strata::detail
