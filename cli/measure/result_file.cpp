#include "measure/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "input/usage_error.h"

namespace strata::cli {

ResultFile::ResultFile(std::string_view option, const std::string& path) : path_(path) {
  if (path.empty()) {
    throw UsageError(
        fmt::format("{} names no file; give a path, or - for standard output", option));
  }
  if (is_standard_output()) {
    fd_ = STDOUT_FILENO;
    return;
  }
  is_new_ = ::access(path.c_str(), F_OK) != 0;
  // Not truncated yet: an earlier result survives until there is a new one.
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    throw UsageError(fmt::format("{} cannot write '{}': {}; give a path that you may write", option,
                                 path, ::strerror(errno)));
  }
}

ResultFile::~ResultFile() {
  if (fd_ < 0 || is_standard_output()) return;
  ::close(fd_);
  if (is_new_) ::unlink(path_.c_str());
}

void ResultFile::write(std::string_view text) {
  is_new_ = false;
  if (!is_standard_output()) {
    // Fails for a pipe or a device, which have nothing to cut off.
    [[maybe_unused]] int ignored = ::ftruncate(fd_, 0);
  }
  while (!text.empty()) {
    ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw std::system_error(errno, std::generic_category(),
                              fmt::format("could not write '{}'", path_));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace strata::cli
