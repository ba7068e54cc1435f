#pragma once

#include <atomic>
#include <cstdint>

/// \file  Waiting for a word to change: in a spin loop, and in the kernel.

namespace strata::os {

/// A hint to the processor inside a spin loop.
inline void relax_processor() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// The word in the form that the functions below take.
inline const std::uint32_t* futex_word(const std::atomic<std::uint32_t>& word) noexcept {
  return reinterpret_cast<const std::uint32_t*>(&word);
}

/// Sleeps while *word == expected, until woken, or until timeout_ns passes (0 waits for ever). May
/// return early: callers loop. All three leave errno unchanged.
void wait_on(const std::uint32_t* word, std::uint32_t expected,
             std::uint64_t timeout_ns = 0) noexcept;
void wake_one(const std::uint32_t* word) noexcept;
void wake_all(const std::uint32_t* word) noexcept;

/// Whether *word == expected, as the kernel reads it: false, without a fault, if it is unreadable.
/// True if the kernel does not say. Leaves errno unchanged.
/// \cost  one system call; behind a filter that refuses it a second one, which may sleep
bool is_still(const std::uint32_t* word, std::uint32_t expected) noexcept;

}  // namespace strata::os
