// Something in the process has its own clock_gettime, and this allocates: so when the malloc asks
// for the time, the malloc is called again.

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "support/check.h"

/// Replaces the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  for (const std::size_t bytes : {3000, 300'000}) free(opaque(malloc(bytes)));
  return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
}

int main() {
  std::vector<void*> blocks(400);
  for (int round = 0; round < 20; ++round) {
    for (void*& p : blocks) {
      p = malloc(200'000);
      CHECK(p != nullptr, "malloc failed");
      std::memset(p, 1, 200'000);
    }
    for (void* p : blocks) free(p);
  }
  return 0;
}
