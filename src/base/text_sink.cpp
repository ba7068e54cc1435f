#include "base/text_sink.h"

#include <algorithm>
#include <cstring>

#include "base/file_warning.h"
#include "os/errors.h"
#include "os/file.h"
#include "os/standard_error.h"

namespace strata {

void BufferSink::write(std::string_view text) noexcept {
  if (length_ + 1 < size_) {
    const std::size_t count = std::min(text.size(), size_ - 1 - length_);
    std::memcpy(buffer_ + length_, text.data(), count);
    buffer_[length_ + count] = '\0';
  }
  length_ += text.size();
}

FileSink::FileSink(const char* path) noexcept
    : path_(path),
      fd_(*path != '\0' ? os::open_to_append(path) : os::standard_error()),
      scratch_(os::kernel_pages(), kBytes),
      buffer_(scratch_.memory() != nullptr ? static_cast<char*>(scratch_.memory()) : spare_),
      capacity_(scratch_.memory() != nullptr ? kBytes : sizeof spare_) {
  is_opened_ = *path != '\0' && fd_ >= 0;
  if (*path != '\0' && fd_ < 0) turn_to_standard_error(-fd_);
}

FileSink::~FileSink() {
  flush(size_);
  if (is_opened_) os::close_file(fd_);
}

void FileSink::write(std::string_view text) noexcept {
  while (!text.empty()) {
    if (size_ == capacity_) {
      const std::size_t last_end = std::string_view(buffer_, size_).rfind('\n');
      flush(last_end == std::string_view::npos ? size_ : last_end + 1);
    }
    const std::size_t count = std::min(text.size(), capacity_ - size_);
    std::memcpy(buffer_ + size_, text.data(), count);
    size_ += count;
    text.remove_prefix(count);
  }
}

/// Writes so many of the buffered characters. If standard error does not take them, tries nothing
/// more.
void FileSink::flush(std::size_t count) noexcept {
  const std::string_view text(buffer_, count);
  int error = fd_ < 0 ? 0 : os::write_file(fd_, text);
  if (error != 0 && is_opened_) {
    os::close_file(fd_);
    turn_to_standard_error(error);
    error = os::write_file(fd_, text);
  }
  if (error != 0) fd_ = -1;
  size_ -= count;
  std::memmove(buffer_, buffer_ + count, size_);
}

void FileSink::turn_to_standard_error(int error) noexcept {
  is_opened_ = false;
  fd_ = os::standard_error();
  warn_of_file("the file", path_, "cannot be written", os::text_of_error(error),
               "; standard error is used");
}

}  // namespace strata
