#include "process/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace strata::cli {

TemporaryFolder::TemporaryFolder(const std::string& name) {
  path_ = (std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string();
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "no temporary folder like " + path_);
  }
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
