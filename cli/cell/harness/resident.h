#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "harness/own_memory.h"

namespace strata::cell {

/// The resident set of this process by the kernel's count, without the harness's tables; 0 if /proc
/// is not mounted.
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
  const std::uint64_t all = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return all - std::min(all, table_bytes->load(std::memory_order_relaxed));
}

}  // namespace strata::cell
