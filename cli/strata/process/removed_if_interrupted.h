#pragma once

#include <optional>

#include "output/whole_file.h"
#include "process/signal_watch.h"

namespace strata::cli {

/// Handles interrupting signals while a file is being written beside its place: removes what was
/// written and ends this process. Before the first write, and for a pipe or a device, signals have
/// their usual effect.
class RemovedIfInterrupted {
 public:
  explicit RemovedIfInterrupted(WholeFile& file) : file_(file) {
    file_.before_each_write([this] { look(); });
  }
  ~RemovedIfInterrupted() {
    file_.discard();  // before unblocking, as a pending signal ends the process
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
