#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace strata::cell {

/// What this process has in memory now, of the kernel's own count; 0 where /proc is not there.
/// \cost  Three system calls, some microseconds, more for a large process. Allocates nothing.
inline std::uint64_t resident_bytes() noexcept {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[128];  // "size resident shared …", in OS pages
  const ssize_t length = ::read(file, text, sizeof text);
  ::close(file);
  std::uint64_t pages = 0;
  ssize_t at = 0;
  while (at < length && text[at] != ' ') ++at;
  for (++at; at < length && text[at] >= '0' && text[at] <= '9'; ++at) {
    pages = pages * 10 + static_cast<std::uint64_t>(text[at] - '0');
  }
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace strata::cell
