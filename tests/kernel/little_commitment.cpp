// With vm.overcommit_memory=2 the kernel counts all memory that a program could write to. For a
// small program that must be little. RLIMIT_DATA counts the same, so a program under a low limit
// runs.

#include <sys/resource.h>

#include "operations/strata_api.h"
#include "support/memory.h"

int main() {
  mallinfo2();  // who looks has a heap from then on
  void* const first = opaque(malloc(100));
  CHECK(strata_release_memory != nullptr, "the program does not run on Strata");
  // VmData: what could be written, except for stacks. The first regions of the heap are 16 MiB.
  const std::size_t committed = status_bytes("VmData");
  fprintf(stderr, "committed %zu KiB, of %zu KiB virtual\n", committed / kKiB,
          status_bytes("VmSize") / kKiB);
  CHECK(committed != 0 && committed < 24 * kMiB, "a small program is committed to much");

  rlimit limit{64 * kMiB, 64 * kMiB};
  CHECK(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit failed");
  static void* blocks[40];
  std::size_t count = 0;
  while (count < 40 && (blocks[count] = opaque(malloc(1'000'000))) != nullptr) ++count;
  CHECK(count >= 20, "memory was out far before the limit");
  while (count != 0) free(blocks[--count]);
  free(first);
  return 0;
}
