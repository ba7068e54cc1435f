#include "os/output.h"

#include <errno.h>
#include <time.h>

#include "os/errors.h"
#include "os/system_call.h"

namespace strata::os {
namespace {

using system_call::Signals;

/// While it lives, this thread gets none of the signals that a write may raise: one raised by our
/// write is taken back, one that was pending stays pending.
class SignalsHeld {
 public:
  SignalsHeld() noexcept
      : before_(system_call::block_signals(SIG_BLOCK, kAll)),
        pending_(system_call::pending_signals()) {}
  ~SignalsHeld() { system_call::block_signals(SIG_SETMASK, before_); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  /// Takes back the signal that came with this error, if one did.
  void take_back(int error) const noexcept {
    const Signals came = (error == EPIPE ? kPipe : error == EFBIG ? kSize : 0) & ~pending_;
    const timespec at_once{};
    while (came != 0 && syscall(SYS_rt_sigtimedwait, &came, nullptr, &at_once, sizeof came) < 0 &&
           errno == EINTR) {
    }
  }

 private:
  static constexpr Signals kPipe = system_call::only(SIGPIPE);
  static constexpr Signals kSize = system_call::only(SIGXFSZ);
  static constexpr Signals kAll = kPipe | kSize;

  const Signals before_;
  const Signals pending_;
};

}  // namespace

int write_all(int file, std::string_view text, int patience_ms) noexcept {
  const SignalsHeld held;
  while (!text.empty()) {
    const ssize_t written = system_call::write(file, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    const int error = written == 0 ? EIO : errno;
    if (error == EINTR) continue;
    if (error == EAGAIN && system_call::wait_until_writable(file, patience_ms)) continue;
    held.take_back(error);
    return error;
  }
  return 0;
}

void write_stderr(std::string_view text) noexcept {
  const SavedErrno saved;
  write_all(STDERR_FILENO, text);
}

}  // namespace strata::os
