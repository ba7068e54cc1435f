#include "os/faults.h"

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstring>

#include "os/errors.h"
#include "os/signal_action.h"
#include "os/system_call.h"

namespace strata::os {
namespace {

constexpr unsigned kMostOwners = 2;
// release when one is added, acquire by handlers: the first stays until the process ends.
std::atomic<bool (*)(const Fault&)> g_owners[kMostOwners] = {};
struct sigaction g_before;

Fault::Access access_of(const ucontext_t& context) noexcept {
#if defined(__x86_64__)
  // Bit 1 of the page fault's error code.
  return (context.uc_mcontext.gregs[REG_ERR] & 2) != 0 ? Fault::Access::kWrite
                                                       : Fault::Access::kRead;
#elif defined(__aarch64__)
  // Records follow the registers, one of no bytes at their end; that of the syndrome says in its
  // bit 6 what the access was.
  const unsigned char* at = context.uc_mcontext.__reserved;
  for (auto* record = reinterpret_cast<const _aarch64_ctx*>(at); record->size != 0;
       record = reinterpret_cast<const _aarch64_ctx*>(at += record->size)) {
    if (record->magic != ESR_MAGIC) continue;
    const auto syndrome = reinterpret_cast<const esr_context*>(record)->esr;
    return (syndrome & 1u << 6) != 0 ? Fault::Access::kWrite : Fault::Access::kRead;
  }
  return Fault::Access::kUnknown;
#else
  return Fault::Access::kUnknown;
#endif
}

Fault fault_of(const siginfo_t& info, const ucontext_t& context) noexcept {
  Fault fault{info.si_addr, access_of(context), 0, 0, 0};
#if defined(__x86_64__)
  const auto& registers = context.uc_mcontext.gregs;
  fault.code = static_cast<std::uintptr_t>(registers[REG_RIP]);
  fault.sp = static_cast<std::uintptr_t>(registers[REG_RSP]);
  fault.fp = static_cast<std::uintptr_t>(registers[REG_RBP]);
#elif defined(__aarch64__)
  fault.code = context.uc_mcontext.pc;
  fault.sp = context.uc_mcontext.sp;
  fault.fp = context.uc_mcontext.regs[29];
#endif
  return fault;
}

/// Restores the default action, taken when the handler returns: the instruction faults again or, if
/// somebody sent the signal, it is sent once more.
void die_of(int number, const siginfo_t& info) noexcept {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  exchange_signal_action(number, &standard, nullptr);
  if (info.si_code <= 0)
    syscall(SYS_tgkill, system_call::process_id(), syscall(SYS_gettid), number);
}

/// Calls the previous handler as the kernel would have done; its mask is added to ours.
void pass_on(int number, siginfo_t* info, void* context) noexcept {
  if ((g_before.sa_flags & SA_SIGINFO) == 0) {
    if (g_before.sa_handler == SIG_DFL) return die_of(number, *info);
    if (g_before.sa_handler == SIG_IGN) {
      // What a thread does to itself cannot be ignored.
      if (info->si_code > 0) die_of(number, *info);
      return;
    }
  }
  system_call::Signals mask;
  std::memcpy(&mask, &g_before.sa_mask, sizeof mask);
  if ((g_before.sa_flags & SA_NODEFER) == 0) mask |= system_call::only(number);
  const auto before = system_call::block_signals(SIG_BLOCK, mask);
  const struct sigaction handler = g_before;
  if ((g_before.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    g_before = {};
    g_before.sa_handler = SIG_DFL;
  }
  if ((handler.sa_flags & SA_SIGINFO) != 0) {
    handler.sa_sigaction(number, info, context);
  } else {
    handler.sa_handler(number);
  }
  system_call::block_signals(SIG_SETMASK, before);
}

bool is_ours(const Fault& fault) noexcept {
  for (const auto& owner : g_owners) {
    const auto ask = owner.load(std::memory_order_acquire);
    if (ask != nullptr && ask(fault)) return true;
  }
  return false;
}

void on_signal(int number, siginfo_t* info, void* context) {
  const SavedErrno saved;
  const auto& at = *static_cast<const ucontext_t*>(context);
  // A signal that was sent, as by kill(), has no address.
  if (info->si_code > 0 && is_ours(fault_of(*info, at))) {
    die_of(number, *info);
  } else {
    pass_on(number, info, context);
  }
}

}  // namespace

bool has_fault_handler() noexcept {
  const SavedErrno saved;
  struct sigaction now = {};
  const bool is_known = exchange_signal_action(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0) return now.sa_sigaction != on_signal;
  return !is_known || now.sa_handler != SIG_DFL;
}

bool install_fault_handler(bool (*is_ours)(const Fault&)) noexcept {
  const auto take = [is_ours](auto& owner) {
    bool (*none)(const Fault&) = nullptr;
    return owner.compare_exchange_strong(none, is_ours, std::memory_order_release,
                                         std::memory_order_relaxed);
  };
  // The second finds our handler there, or on its way, or replaced by the program.
  if (!take(g_owners[0])) return take(g_owners[1]);
  const SavedErrno saved;
  struct sigaction ours = {};
  ours.sa_sigaction = on_signal;
  // No mask and no deferral: the handler before chooses its own.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  // Known before ours can be called, and once more with the change itself: the program may set one
  // between the two.
  return exchange_signal_action(SIGSEGV, nullptr, &g_before) &&
         exchange_signal_action(SIGSEGV, &ours, &g_before);
}

}  // namespace strata::os
