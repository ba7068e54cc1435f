// The program's address space is limited for a moment, just when the first block should be guarded.
// Later blocks are guarded.

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

#include "support/check.h"
#include "support/memory.h"

namespace {

constexpr std::size_t kBytes = 200 * kKiB + 3;

/// A guarded block is as long as was requested, not rounded up.
bool is_guarded(void* block) { return malloc_usable_size(block) == kBytes; }

}  // namespace

int main() {
  rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "the limit cannot be read");
  if (limit.rlim_cur != RLIM_INFINITY) return 0;  // there may be no room for guarded blocks at all
  void* const before = malloc(300 * kKiB);        // so that there is room for what follows
  CHECK(opaque(before) != nullptr, "no memory");
  rlimit tight = limit;
  tight.rlim_cur = status_bytes("VmSize") + kMiB;
  CHECK(setrlimit(RLIMIT_AS, &tight) == 0, "no limit can be set");
  void* const first = opaque(malloc(kBytes));
  CHECK(first != nullptr && !is_guarded(first), "the first block is guarded");
  free(first);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "the limit cannot be lifted");

  int guarded = 0;
  for (int i = 0; i < 100'000; ++i) {
    void* const block = opaque(malloc(kBytes));
    guarded += is_guarded(block) ? 1 : 0;
    free(block);
  }
  CHECK(guarded != 0, "no later block is guarded");
}
