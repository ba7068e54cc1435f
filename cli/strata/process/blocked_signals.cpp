#include "process/blocked_signals.h"

namespace strata::cli {

BlockedSignals::BlockedSignals(const sigset_t& signals) : set_(signals) {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &plain, &original_child_action_);
  ::sigaddset(&set_, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &set_, &original_mask_);
}

void BlockedSignals::restore() const {
  ::sigaction(SIGCHLD, &original_child_action_, nullptr);
  ::sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
}

}  // namespace strata::cli
