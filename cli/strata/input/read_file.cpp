#include "input/read_file.h"

#include <fmt/format.h>
#include <string.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "input/usage_error.h"

namespace strata::cli {

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format("'{}' is a folder; give a file", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError(fmt::format("'{}' cannot be read: {}", path, ::strerror(errno)));
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

void refuse_pipe(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_fifo(path, ignored)) return;
  throw UsageError(fmt::format("'{}' is a pipe, which cannot be read twice; give a file", path));
}

}  // namespace strata::cli
