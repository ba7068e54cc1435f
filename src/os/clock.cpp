#include "os/clock.h"

#include <time.h>

#include "os/system_call.h"

namespace strata::os {
namespace {

std::uint64_t read_clock(clockid_t clock) noexcept {
  timespec now{};
  // A filter may refuse the call; what the C library has answers without one, but for CPU time.
  if (system_call::read_clock(clock, now) != 0) clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::uint64_t monotonic_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }
std::uint64_t wall_clock_ns() noexcept { return read_clock(CLOCK_REALTIME); }
std::uint64_t process_cpu_ns() noexcept { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }
std::uint64_t thread_cpu_ns() noexcept { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace strata::os
