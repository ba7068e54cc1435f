#include "os/output.h"

#include <errno.h>
#include <time.h>

#include "os/errors.h"
#include "os/system_call.h"

namespace strata::os {
namespace {

using system_call::Signals;

/// While it lives this thread gets no SIGPIPE: the one of a write of ours is taken back, one that
/// was waiting before waits on.
class PipeSignalHeld {
 public:
  PipeSignalHeld() noexcept
      : before_(system_call::block_signals(SIG_BLOCK, kPipe)),
        was_pending_((system_call::pending_signals() & kPipe) != 0) {}
  ~PipeSignalHeld() { system_call::block_signals(SIG_SETMASK, before_); }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

  void take_back() const noexcept {
    const timespec at_once{};
    while (!was_pending_ &&
           syscall(SYS_rt_sigtimedwait, &kPipe, nullptr, &at_once, sizeof kPipe) < 0 &&
           errno == EINTR) {
    }
  }

 private:
  static constexpr Signals kPipe = system_call::only(SIGPIPE);

  const Signals before_;
  const bool was_pending_;
};

}  // namespace

int write_all(int file, std::string_view text) noexcept {
  const PipeSignalHeld held;
  while (!text.empty()) {
    const ssize_t written = system_call::write(file, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    const int error = written == 0 ? EIO : errno;
    if (error == EINTR) continue;
    if (error == EPIPE) held.take_back();
    return error;
  }
  return 0;
}

void write_stderr(std::string_view text) noexcept {
  const SavedErrno saved;
  write_all(STDERR_FILENO, text);
}

}  // namespace strata::os
