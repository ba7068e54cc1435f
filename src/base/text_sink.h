#pragma once

#include <cstddef>
#include <string_view>

#include "base/scratch.h"

namespace strata {

/// A destination of text, piece by piece. Neither it nor its users allocate.
/// Its virtual function is inline and not pure, so that a library without the C++ runtime can link
/// it.
/// \threads  One at a time.
class TextSink {
 public:
  virtual void write(std::string_view) noexcept {}

 protected:
  ~TextSink() = default;  // never deleted through this type
};

/// Fills a caller's buffer as snprintf does: what fits, a terminating 0, and the count of all.
class BufferSink final : public TextSink {
 public:
  BufferSink(char* buffer, std::size_t size) noexcept : buffer_(buffer), size_(size) {
    if (size_ != 0) buffer_[0] = '\0';
  }
  void write(std::string_view text) noexcept override;
  /// Characters written so far, including those that did not fit.
  std::size_t length() const noexcept { return length_; }

 private:
  char* buffer_;
  std::size_t size_;
  std::size_t length_ = 0;
};

/// Appends to a file. If there is none, or once it cannot be opened or written, writes to standard
/// error (the kept one, if the program has closed its own); then one warning says why. Text that
/// fits kBytes is one write, so that texts of several processes do not mix; longer text is written
/// by whole lines.
class FileSink final : public TextSink {
 public:
  // Chosen: twice what statistics of all size classes take.
  static constexpr std::size_t kBytes = std::size_t{32} << 10;

  /// \param path  "" for standard error; outlives this
  explicit FileSink(const char* path) noexcept;
  ~FileSink();
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;
  void write(std::string_view text) noexcept override;

 private:
  void flush(std::size_t count) noexcept;
  void turn_to_standard_error(int error) noexcept;

  const char* const path_;
  bool is_opened_ = false;
  int fd_;
  Scratch scratch_;
  char spare_[512];  // if no memory is left
  char* const buffer_;
  const std::size_t capacity_;
  std::size_t size_ = 0;
};

}  // namespace strata
