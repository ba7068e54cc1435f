// A small program needs little memory, whatever the kernel does with transparent huge pages: a
// single one under its few objects would be more than all of them.
//
//   small_program        little is resident
//   small_program huge   huge pages are: STRATA_HUGE_PAGES=always asks for them

#include "operations/strata_api.h"
#include "support/memory.h"

int main(int argc, char** argv) {
  mallinfo2();
  CHECK(strata_release_memory != nullptr, "the program does not run on Strata");
  constexpr std::size_t kObjects = 1000;
  constexpr std::size_t kBytes = 100;
  for (std::size_t i = 0; i < kObjects; ++i) {
    void* const object = opaque(malloc(kBytes));
    CHECK(object != nullptr, "memory was refused");
    std::memset(object, 1, kBytes);
  }
  // Counted page by page, unlike VmRSS, which may be behind by up to 64 pages.
  const std::size_t anonymous = memory_field("/proc/self/smaps_rollup", "Anonymous");
  const std::size_t huge = memory_field("/proc/self/smaps_rollup", "AnonHugePages");
  fprintf(stderr, "%zu KiB anonymous, %zu KiB of them in huge pages\n", anonymous / kKiB,
          huge / kKiB);
  CHECK(anonymous >= kObjects * kBytes, "less is resident than was written");
  if (argc > 1 && std::strcmp(argv[1], "huge") == 0)
    CHECK(huge != 0, "no huge page was given");
  else
    CHECK(anonymous < kMiB, "a small program has much memory");
  return 0;
}
