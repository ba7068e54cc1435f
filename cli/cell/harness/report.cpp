#include "harness/report.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace strata::cell {
namespace {

constexpr std::size_t kLongestLine = 512;

}  // namespace

void Report::line(const char* format, ...) noexcept {
  if (sizeof buffer_ - used_ < kLongestLine) flush();
  std::va_list arguments;
  va_start(arguments, format);
  int length = std::vsnprintf(buffer_ + used_, kLongestLine - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  auto written = static_cast<std::size_t>(length);
  used_ += written < kLongestLine - 1 ? written : kLongestLine - 2;
  buffer_[used_++] = '\n';
}

void Report::flush() noexcept {
  std::size_t done = 0;
  while (done < used_) {
    ssize_t written = ::write(fd_, buffer_ + done, used_ - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  used_ = 0;
}

}  // namespace strata::cell
