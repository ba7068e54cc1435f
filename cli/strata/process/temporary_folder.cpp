#include "process/temporary_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "input/usage_error.h"

namespace strata::cli {

std::string temporary_name(const std::string& name) {
  const char* const variable = std::getenv("TMPDIR");
  const std::string folder = variable != nullptr && *variable != '\0' ? variable : "/tmp";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw UsageError(fmt::format(
        "TMPDIR is '{}', which is no folder; set it to one that you may write, or unset "
        "it",
        folder));
  }
  return folder + "/" + name + "-XXXXXX";
}

void refuse_temporary(const char* what, const std::string& path) {
  throw std::runtime_error(fmt::format(
      "cannot make a temporary {} like {}: {}; set TMPDIR to a folder that you may write", what,
      path, std::strerror(errno)));
}

TemporaryFolder::TemporaryFolder(const std::string& name) : path_(temporary_name(name)) {
  if (::mkdtemp(path_.data()) == nullptr) refuse_temporary("folder", path_);
}

TemporaryFolder::~TemporaryFolder() { remove(); }

void TemporaryFolder::remove() noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void end_if_interrupted(SignalWatch& signals, TemporaryFolder& folder) {
  if (signals.interruption() == 0) return;
  folder.remove();
  die_by_signal(signals.interruption());
}

}  // namespace strata::cli
