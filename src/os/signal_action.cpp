#include "os/signal_action.h"

#include <cstring>

#include "os/system_call.h"

#ifdef __x86_64__
// The code that a handler returns to. Debuggers know it by its name. Unwinders know it by its
// instructions, but only if no unwind table covers it, nor the byte before it: hence the nop.
asm(R"(
  .pushsection .text.return_from_handler, "ax", @progbits
  nop
  .type __restore_rt, @function
__restore_rt:
  movq $15, %rax
  syscall
  .size __restore_rt, . - __restore_rt
  .popsection
)");
extern "C" [[gnu::visibility("hidden")]] void strata_return_from_handler() asm("__restore_rt");
#endif

namespace strata::os {

namespace {

#if defined(__x86_64__) || defined(__aarch64__)
constexpr bool kIsKnown = !system_call::kIsFollowed;
#else
constexpr bool kIsKnown = false;
#endif

/// An action in the kernel's layout.
struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)();
  system_call::Signals mask;
};
constexpr unsigned long kHasRestorer = 0x04000000;  // SA_RESTORER, which no header defines

KernelAction to_kernel(const struct sigaction& action) noexcept {
  KernelAction kernel{};
  kernel.handler = action.sa_sigaction;
  kernel.flags = static_cast<unsigned>(action.sa_flags);
#ifdef __x86_64__
  kernel.flags |= kHasRestorer;
  kernel.restorer = strata_return_from_handler;
#endif
  std::memcpy(&kernel.mask, &action.sa_mask, sizeof kernel.mask);
  return kernel;
}

struct sigaction from_kernel(const KernelAction& kernel) noexcept {
  struct sigaction action = {};
  action.sa_sigaction = kernel.handler;
  action.sa_flags = static_cast<int>(kernel.flags & ~kHasRestorer);
  std::memcpy(&action.sa_mask, &kernel.mask, sizeof kernel.mask);
  return action;
}

}  // namespace

bool exchange_signal_action(int signal, const struct sigaction* now,
                            struct sigaction* before) noexcept {
  if constexpr (!kIsKnown) return sigaction(signal, now, before) == 0;
  KernelAction in, out;
  if (now != nullptr) in = to_kernel(*now);
  const bool is_done = syscall(SYS_rt_sigaction, signal, now != nullptr ? &in : nullptr,
                               before != nullptr ? &out : nullptr, sizeof out.mask) == 0;
  if (is_done && before != nullptr) *before = from_kernel(out);
  return is_done;
}

}  // namespace strata::os
