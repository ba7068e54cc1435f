// The process has as many mappings as the kernel allows (vm.max_map_count). A request that needs
// another one is refused with ENOMEM, or served from memory that is there; no live block is harmed;
// every free succeeds. When there are mappings again, everything works and nothing is lost.

#include <errno.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "operations/strata_api.h"
#include "support/memory.h"

namespace {

constexpr std::size_t kBlocks = 400;
struct Block {
  unsigned char* p;
  std::size_t bytes;
};
Block g_blocks[kBlocks];
std::size_t g_refused;

std::size_t size_of(std::size_t i) {
  constexpr std::size_t kSizes[] = {48, 3000, 90'000, 400'000, 2 * kMiB, 5 * kMiB};
  return kSizes[i % 6];
}

void take(std::size_t i, std::size_t bytes) {
  errno = 0;
  auto* const p = static_cast<unsigned char*>(opaque(i % 3 == 0   ? malloc(bytes)
                                                     : i % 3 == 1 ? calloc(bytes, 1)
                                                                  : aligned_alloc(4096, bytes)));
  if (p == nullptr) {
    CHECK(errno == ENOMEM, "refused without ENOMEM");
    ++g_refused;
    return;
  }
  p[0] = p[bytes / 2] = p[bytes - 1] = static_cast<unsigned char>(i);
  g_blocks[i] = {p, bytes};
}

void verify(const Block& block, std::size_t i) {
  const auto value = static_cast<unsigned char>(i);
  CHECK(
      block.p[0] == value && block.p[block.bytes / 2] == value && block.p[block.bytes - 1] == value,
      "a block was damaged");
}

void drop(std::size_t i) {
  Block& block = g_blocks[i];
  if (block.p == nullptr) return;
  verify(block, i);
  free(block.p);
  block.p = nullptr;
}

void take_and_drop() {
  for (std::size_t i = 0; i < kBlocks; ++i) {
    drop(i);
    take(i, size_of(i) + i * 16);
  }
  for (std::size_t i = 0; i < kBlocks; ++i)
    if (i % 3 != 0) drop(i);
  malloc_trim(0);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    if (g_blocks[i].p == nullptr) continue;
    verify(g_blocks[i], i);
    const std::size_t bytes = g_blocks[i].bytes / 2;
    void* const smaller = realloc(g_blocks[i].p, bytes);
    CHECK(smaller != nullptr, "a block could not become smaller");
    g_blocks[i].p = static_cast<unsigned char*>(smaller);
    CHECK(g_blocks[i].p[0] == static_cast<unsigned char>(i), "realloc lost the contents");
    free(smaller);
    g_blocks[i].p = nullptr;
  }
}

struct Pages {
  char* p;
  std::size_t count;
};

/// Cuts one mapping into as many as the kernel lets the process have, of single pages with two
/// protections by turns.
Pages use_up_mappings() {
  constexpr std::size_t kPage = 4096;
  // Twice the largest limit that a system has unless somebody raised it; Debian's is 65530.
  constexpr std::size_t kCount = 4 * 65536;
  auto* const p = static_cast<char*>(
      mmap(nullptr, kCount * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  CHECK(p != MAP_FAILED, "no addresses for the mappings");
  for (std::size_t i = 1; i < kCount; i += 2) {
    if (mprotect(p + i * kPage, kPage, PROT_READ) != 0) return {p, kCount * kPage};
  }
  printf("SKIPPED: vm.max_map_count is above %zu\n", kCount);
  _exit(77);
}

}  // namespace

int main() {
  mallinfo2();
  CHECK(strata_release_memory != nullptr, "the program does not run on Strata");
  take_and_drop();
  CHECK(g_refused == 0, "memory was refused before the mappings were used up");
  strata_release_memory();
  const std::size_t live = stats_number("live");
  const std::size_t resident = resident_bytes();
  // Some blocks are live, so that mappings would have to be cut.
  for (std::size_t i = 0; i < kBlocks; i += 2) take(i, size_of(i));

  const Pages used_up = use_up_mappings();
  for (int round = 0; round < 3; ++round) take_and_drop();
  fprintf(stderr, "refused %zu\n", g_refused);
  munmap(used_up.p, used_up.count);

  g_refused = 0;
  take_and_drop();
  CHECK(g_refused == 0, "memory is refused when there are mappings again");
  // Now kept ranges go back, and so do the addresses of ranges that could not be cut out.
  strata_release_memory();
  CHECK(stats_number("live") <= live, "a block is lost");
  CHECK(stats_number("kept_bytes") == 0, "a range stays kept for ever");
  CHECK(resident_bytes() < resident + 8 * kMiB, "memory is lost");
  return 0;
}
