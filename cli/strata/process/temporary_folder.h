#pragma once

#include <string>

#include "process/signal_watch.h"

namespace strata::cli {

/// A name for mkstemp or mkdtemp in TMPDIR or /tmp.
/// \errors  UsageError if TMPDIR is no folder.
std::string temporary_name(const std::string& name);
/// \param what  "file" or "folder": it could not be made, for the reason in errno
/// \errors  std::runtime_error, always
[[noreturn]] void refuse_temporary(const char* what, const std::string& path);

/// A folder of our own in TMPDIR or /tmp, which is gone with all that is in it when the object is.
class TemporaryFolder {
 public:
  /// \param name  what its name begins with, "strata-report"
  /// \errors  As of temporary_name() and refuse_temporary().
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// For an end of the process that runs no destructors.
  void remove() noexcept;

 private:
  std::string path_;
};

/// Removes the folder and ends this process by the signal, if an interrupting one has arrived.
void end_if_interrupted(SignalWatch& signals, TemporaryFolder& folder);

}  // namespace strata::cli
