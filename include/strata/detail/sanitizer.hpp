#pragma once

#include <cstddef>

/// \file  Tells AddressSanitizer which memory is free. Does nothing in builds without it.

#if defined(__SANITIZE_ADDRESS__)
#define STRATA_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRATA_HAS_ASAN 1
#endif
#endif

#ifdef STRATA_HAS_ASAN
extern "C" void __asan_poison_memory_region(void const volatile* address, std::size_t bytes);
extern "C" void __asan_unpoison_memory_region(void const volatile* address, std::size_t bytes);
#endif

namespace strata::detail {

/// From now on ASan reports every read or write of these bytes.
inline void asan_poison([[maybe_unused]] const void* p,
                        [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef STRATA_HAS_ASAN
  __asan_poison_memory_region(p, bytes);
#endif
}

inline void asan_unpoison([[maybe_unused]] const void* p,
                          [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef STRATA_HAS_ASAN
  __asan_unpoison_memory_region(p, bytes);
#endif
}

}  // namespace strata::detail
