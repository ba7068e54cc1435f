#include "os/resources.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "os/errors.h"
#include "os/file.h"
#include "os/page_source.h"
#include "os/system_call.h"
#include "os/text_parts.h"

namespace strata::os {

namespace {

/// The second number of a statm file, the resident set in OS pages; 0 if unreadable.
std::size_t resident_pages(const char* statm) noexcept {
  LineReader lines(statm);
  std::string_view line;
  if (!lines.next(line)) return 0;
  take_part(line, ' ');
  std::size_t pages = 0;
  return is_number(take_part(line, ' '), pages) ? pages : 0;
}

}  // namespace

std::size_t resident_bytes() noexcept {
  const SavedErrno saved;
  std::size_t pages = resident_pages("/proc/self/statm");
  // "self" is the first thread, which has no memory once it has ended by pthread_exit().
  if (pages == 0) pages = resident_pages("/proc/thread-self/statm");
  return pages * page_bytes();
}

std::size_t most_resident_bytes() noexcept {
  const SavedErrno saved;
  rusage usage;
  if (system_call::are_filtered() || syscall(SYS_getrusage, RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

unsigned processor_count() noexcept {
  const SavedErrno saved;
  // Not the C library's function: it lies in a part of that library which a small program needs for
  // nothing else.
  system_call::Processors processors;
  system_call::processors_of(0, processors);
  return std::max(processors.count(), 1u);
}

std::size_t address_space_limit_bytes() noexcept {
  const SavedErrno saved;
  rlimit limit;
  const bool is_limited =
      system_call::read_limit(RLIMIT_AS, limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? static_cast<std::size_t>(limit.rlim_cur) : SIZE_MAX;
}

bool is_beyond_machine(std::size_t bytes) noexcept {
  // Chosen: no processor gives a process more addresses unasked, and no machine has as much memory.
  constexpr std::size_t kMostAddresses = std::size_t{1} << 48;
  const SavedErrno saved;
  if (bytes > kMostAddresses || bytes > address_space_limit_bytes()) return true;
  struct sysinfo machine;
  // A filter may end the process for a call that a malloc seldom makes.
  if (system_call::are_filtered() || syscall(SYS_sysinfo, &machine) != 0) return false;
  return bytes > (std::size_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
}

}  // namespace strata::os
