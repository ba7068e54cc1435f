#include "os/output.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

namespace strata::os {

CancellationHeld::CancellationHeld() noexcept {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
}
CancellationHeld::~CancellationHeld() { pthread_setcancelstate(before_, nullptr); }

namespace {

/// While it lives this thread gets no SIGPIPE: the one of a write of ours is taken back, one that
/// was waiting before waits on.
class PipeSignalHeld {
 public:
  PipeSignalHeld() noexcept {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
  }
  ~PipeSignalHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

  void take_back() const noexcept {
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_;
};

}  // namespace

int write_all(int file, std::string_view text) noexcept {
  const PipeSignalHeld held;
  const CancellationHeld not_now;
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
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
  const int saved = errno;
  write_all(STDERR_FILENO, text);
  errno = saved;
}

}  // namespace strata::os
