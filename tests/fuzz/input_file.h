#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "choices.h"

namespace strata::fuzz {

/// libFuzzer's bytes as a file, for readers that want a path. It is in memory only.
class InputFile {
 public:
  explicit InputFile(std::string_view bytes) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    require(fd_ >= 0, "the kernel has files in memory");
    const auto size = static_cast<ssize_t>(bytes.size());
    require(::write(fd_, bytes.data(), bytes.size()) == size, "a file in memory can be written");
    path_ = "/proc/self/fd/" + std::to_string(fd_);
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

}  // namespace strata::fuzz
