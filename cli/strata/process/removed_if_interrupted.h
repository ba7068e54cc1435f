#pragma once

#include <optional>

#include "output/whole_file.h"
#include "process/signal_watch.h"

namespace strata::cli {

/// Removes what is written beside the place of a file, and ends this process, when an interrupting
/// signal arrives meanwhile. Until the first write, and where nothing is beside (a pipe, a device),
/// signals do what they ever do.
class RemovedIfInterrupted {
 public:
  explicit RemovedIfInterrupted(WholeFile& file) : file_(file) {
    file_.before_each_write([this] { look(); });
  }
  ~RemovedIfInterrupted() {
    file_.discard();  // before a signal that is held back ends the process
    file_.before_each_write({});
  }
  RemovedIfInterrupted(const RemovedIfInterrupted&) = delete;
  RemovedIfInterrupted& operator=(const RemovedIfInterrupted&) = delete;

 private:
  void look() {
    if (!signals_) signals_.emplace();
    if (signals_->interruption() == 0) return;
    file_.discard();
    die_by_signal(signals_->interruption());
  }

  WholeFile& file_;
  std::optional<SignalWatch> signals_;
};

}  // namespace strata::cli
