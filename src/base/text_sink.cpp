#include "base/text_sink.h"

#include <algorithm>
#include <cstring>

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
    : path_(path), fd_(*path != '\0' ? os::open_to_append(path) : os::standard_error()) {
  is_opened_ = *path != '\0' && fd_ >= 0;
  if (fd_ < 0) turn_to_standard_error();
}

FileSink::~FileSink() {
  flush();
  if (is_opened_) os::close_file(fd_);
}

void FileSink::write(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t count = std::min(text.size(), TextWriter::kCapacity - buffer_.view().size());
    buffer_.text(text.substr(0, count));
    text.remove_prefix(count);
    if (buffer_.view().size() == TextWriter::kCapacity) flush();
  }
}

void FileSink::flush() noexcept {
  if (!os::write_file(fd_, buffer_.view()) && is_opened_) {
    os::close_file(fd_);
    turn_to_standard_error();
    os::write_file(fd_, buffer_.view());
  }
  buffer_.clear();
}

void FileSink::turn_to_standard_error() noexcept {
  is_opened_ = false;
  fd_ = os::standard_error();
  TextWriter line;
  line.text("strata: warning: cannot write to ").text(path_).text("; standard error is used\n");
  os::write_file(fd_, line.view());
}

}  // namespace strata
