#pragma once

namespace strata {

/// Fetches the line of memory at `p` to be written soon. What another processor wrote comes once
/// then; if it is read first, it comes to be read, and again to be written. Any address will do,
/// nullptr, too.
/// \cost  an instruction
inline void fetch_to_write(const void* p) noexcept {
#if defined(__x86_64__)
  // Without a flag that not every processor has, the builtin would fetch to read. Where the
  // processor does not know the instruction it does nothing.
  asm volatile("prefetchw (%0)" : : "r"(p));
#else
  __builtin_prefetch(p, 1);
#endif
}

}  // namespace strata
