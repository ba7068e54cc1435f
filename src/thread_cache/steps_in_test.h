#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>

// Sanitizers delay signals, and take locks of their own where a signal would come.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STRATA_HAS_STEPS

namespace strata {

inline void (*g_on_step)() = nullptr;

/// After each instruction of `work` comes a signal (by the trap flag), whose handler calls
/// `on_step`.
template <typename Work>
void run_in_steps(void (*on_step)(), Work work) {
  g_on_step = on_step;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { g_on_step(); };
  ASSERT_EQ(sigaction(SIGTRAP, &action, &before), 0);
  constexpr std::uintptr_t kTrapFlag = 0x100;
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | kTrapFlag);
  work();
  __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~kTrapFlag);
  sigaction(SIGTRAP, &before, nullptr);
}

}  // namespace strata

#endif
