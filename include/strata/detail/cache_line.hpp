#pragma once

#include <cstddef>

namespace strata::detail {

/// Bytes that two cores cannot write at once without waiting for each other. Data that several
/// threads write is kept this far apart. Layouts depend on it: the whole program must agree on it.
///   64   x86-64 and most AArch64
///   128  Apple's cores and POWER
///   8    microcontrollers of the Cortex-M family: one core, so no line is shared
/// Not std::hardware_destructive_interference_size: that one may change with -mtune.
#if defined(STRATA_CACHE_LINE_BYTES)
inline constexpr std::size_t kCacheLineBytes = STRATA_CACHE_LINE_BYTES;
#elif defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
inline constexpr std::size_t kCacheLineBytes = 8;
#elif defined(__powerpc64__) || (defined(__APPLE__) && defined(__aarch64__))
inline constexpr std::size_t kCacheLineBytes = 128;
#else
inline constexpr std::size_t kCacheLineBytes = 64;
#endif
static_assert(kCacheLineBytes >= sizeof(void*) && (kCacheLineBytes & (kCacheLineBytes - 1)) == 0,
              "a cache line is a power of two that holds at least one word");

}  // namespace strata::detail
