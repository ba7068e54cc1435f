#include "input/read_file.h"

#include <fmt/format.h>
#include <string.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "input/usage_error.h"
#include "shared/trace/file_kind.h"

namespace strata::cli {
namespace {

// Chosen: results and profiles have at most some 100 MiB; a device may be endless.
constexpr std::size_t kMostFileBytes = std::size_t{256} << 20;

}  // namespace

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format("'{}' is a folder; give a file", path));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError(fmt::format("'{}' cannot be read: {}", path, ::strerror(errno)));
  std::string text;
  std::string piece(std::size_t{64} << 10, '\0');
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    const auto length = static_cast<std::size_t>(file.gcount());
    if (length > kMostFileBytes - text.size()) {
      const FileKind kind = file_kind_of(text);
      const bool can_be_read = kind == FileKind::kResults || kind == FileKind::kProfile;
      constexpr std::string_view kAdvice = "give results or a heap profile";
      throw UsageError(fmt::format("'{}' has more than 256 MiB; {}", path,
                                   can_be_read ? kAdvice : describe_file(kind, kAdvice)));
    }
    text.append(piece, 0, length);
  }
  if (file.bad()) throw UsageError(fmt::format("'{}' cannot be read: {}", path, ::strerror(errno)));
  return text;
}

void refuse_pipe(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_fifo(path, ignored)) return;
  throw UsageError(fmt::format("'{}' is a pipe, which cannot be read twice; give a file", path));
}

}  // namespace strata::cli
