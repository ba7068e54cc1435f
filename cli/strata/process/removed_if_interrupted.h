#pragma once

#include <optional>
#include <string_view>

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

/// Writes all of a file and moves it into its place.
/// \errors  Those of WholeFile::commit().
inline void write_whole(WholeFile& file, std::string_view text) {
  const RemovedIfInterrupted guard(file);
  file.write(text);
  file.commit();
}

}  // namespace strata::cli
