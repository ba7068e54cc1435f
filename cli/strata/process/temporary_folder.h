#pragma once

#include <string>

#include "process/signal_watch.h"

namespace strata::cli {

/// A template for mkstemp or mkdtemp in TMPDIR or /tmp.
/// \errors  UsageError if TMPDIR is no folder.
std::string temporary_name(const std::string& name);
/// \param what  "file" or "folder", which could not be created; errno has the reason
/// \errors  std::runtime_error, always
[[noreturn]] void refuse_temporary(const char* what, const std::string& path);

/// A folder in TMPDIR or /tmp, removed with its contents by the destructor.
class TemporaryFolder {
 public:
  /// \param name  the prefix of its name, "strata-report"
  /// \errors  Those of temporary_name() and refuse_temporary().
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  /// Removes the folder, for exits that run no destructors.
  void remove() noexcept;

 private:
  std::string path_;
};

/// If an interrupting signal has arrived, removes the folder and ends this process by that signal.
void end_if_interrupted(SignalWatch& signals, TemporaryFolder& folder);

}  // namespace strata::cli
