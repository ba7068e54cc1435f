#pragma once

namespace strata {

/// Prefetches the line at `p` for writing. A line that another processor wrote then comes once; if
/// it is read first, it comes for reading, and again for writing. Any address will do, even
/// nullptr.
/// \cost  an instruction
inline void fetch_to_write(const void* p) noexcept {
#if defined(__x86_64__)
  // The builtin would fetch for reading, unless a flag is set that not every processor has. A
  // processor that does not know the instruction ignores it.
  asm volatile("prefetchw (%0)" : : "r"(p));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace strata
