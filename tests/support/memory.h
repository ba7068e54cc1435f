#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

/// \file  What the kernel says about this process's memory, read without allocating.

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;
inline constexpr std::size_t kGiB = 1024 * kMiB;

/// The value of "<field>:" in a file under /proc that counts in kB, in bytes; 0 if it cannot be
/// read.
inline std::size_t memory_field(const char* file, const char* field) {
  char text[4096];
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
  if (fd >= 0) close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  const char* line = std::strstr(text, field);
  if (line == nullptr) return 0;
  return std::strtoull(line + std::strlen(field) + 1, nullptr, 10) * kKiB;
}

/// The value of a field such as VmRSS, VmHWM or VmSize.
inline std::size_t status_bytes(const char* field) {
  return memory_field("/proc/self/status", field);
}

inline std::size_t resident_bytes() { return status_bytes("VmRSS"); }
inline std::size_t peak_resident_bytes() { return status_bytes("VmHWM"); }

/// From now on the peak counts anew.
inline void reset_peak_resident_bytes() {
  const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t written = write(fd, "5", 1);
  close(fd);
  static_cast<void>(written);
}
