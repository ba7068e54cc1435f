// A program under a limit on the memory that it holds.
//
//   limits hard        with STRATA_HARD_LIMIT=64m: small, large and huge blocks run out below the
//                      limit with ENOMEM, nothing is damaged, and freed memory can be had again
//   limits soft        with STRATA_SOFT_LIMIT=32m: memory freed above the limit goes back to the
//                      kernel without the scavenger; below it nothing goes back in a hurry
//   limits quarantine  with STRATA_SOFT_LIMIT=64m STRATA_CHECKS=full: the quarantine is emptied
//                      above the limit, and by malloc_trim
//   limits guarded     with STRATA_HARD_LIMIT=32m STRATA_GUARD_RATE=1: guarded objects count as
//                      held

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "operations/strata_api.h"
#include "support/memory.h"

namespace {

/// Allocates blocks of one size until there is no memory.
/// \returns  how many bytes there were
std::size_t fill(std::size_t bytes, std::vector<unsigned char*>& blocks) {
  const std::size_t before = blocks.size();
  for (;;) {
    errno = 0;
    auto* p = static_cast<unsigned char*>(malloc(bytes));
    if (p == nullptr) break;
    std::memset(p, static_cast<int>(bytes % 251), bytes);
    blocks.push_back(p);
    CHECK(blocks.size() < blocks.capacity(), "there is no limit");
  }
  CHECK(errno == ENOMEM, "out of memory without its errno");
  return (blocks.size() - before) * bytes;
}

void free_all(std::vector<unsigned char*>& blocks, std::size_t bytes) {
  for (unsigned char* p : blocks) {
    CHECK(p[0] == bytes % 251 && p[bytes - 1] == bytes % 251, "a block was damaged");
    free(p);
  }
  blocks.clear();
}

void under_a_hard_limit() {
  constexpr std::size_t kLimit = 64 * kMiB;
  CHECK(stats_number("hard_bytes") == kLimit, "the limit is not the one that was set");
  std::vector<unsigned char*> blocks;
  blocks.reserve(500'000);
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t bytes : {200u, 3000u, 70'000u, 300'000u, 2'000'000u, 17'000'000u}) {
      const std::size_t got = fill(bytes, blocks);
      CHECK(got > kLimit / 2, "hardly anything was to be had below the limit");
      CHECK(got <= kLimit, "more was to be had than the limit");
      CHECK(stats_number("held_bytes") <= kLimit, "more is held than the limit");
      CHECK(resident_bytes() < kLimit + 16 * kMiB, "more is resident than the limit");
      void* grown = realloc(blocks.back(), 80 * kMiB);
      CHECK(grown == nullptr, "realloc passed the limit");
      CHECK(calloc(1, 80 * kMiB) == nullptr, "calloc passed the limit");
      free_all(blocks, bytes);
    }
  }
  CHECK(stats_number("hard_refusals") > 0, "refusals are not counted");
  CHECK(stats_number("peak_bytes") <= kLimit + kMiB, "the peak passed the limit");
}

void under_a_soft_limit() {
  constexpr std::size_t kLimit = 32 * kMiB;
  std::vector<void*> blocks;
  blocks.reserve(100'000);
  const auto allocate = [&blocks](std::size_t total, std::size_t bytes) {
    for (std::size_t i = 0; i < total / bytes; ++i) {
      blocks.push_back(malloc(bytes));
      CHECK(blocks.back() != nullptr, "a soft limit refused memory");
      std::memset(blocks.back(), 1, bytes);
    }
  };
  const auto free_half = [&blocks] {
    for (std::size_t i = blocks.size() / 2; i < blocks.size(); ++i) free(blocks[i]);
    blocks.resize(blocks.size() / 2);
  };
  allocate(16 * kMiB, 2000);
  for (void* p : blocks) free(p);
  blocks.clear();
  CHECK(stats_number("soft_passes") == 0, "below the limit something went back in a hurry");

  allocate(128 * kMiB, 2000);
  CHECK(stats_number("soft_passes") > 0, "nobody noticed the limit");
  CHECK(stats_number("soft_passes") < 128 * kMiB / (kLimit / 32) + 32,
        "passes come without measure");
  free_half();
  // The objects have 2048 bytes each, and up to a 32nd of the limit may wait for the next pass.
  CHECK(stats_number("held_bytes") < 72 * kMiB, "what was freed stayed");
  CHECK(resident_bytes() < 80 * kMiB, "what was freed stayed resident");
  CHECK(stats_number("soft_returned_bytes") > 48 * kMiB, "what went back was not counted");
}

/// Frees so much in each size class that its quarantine is full.
void fill_quarantine() {
  for (std::size_t bytes = 16; bytes < 120'000; bytes += bytes / 8 + 1) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < 4 + 64 * 1024 / bytes; ++i) blocks.push_back(malloc(bytes));
    for (void* p : blocks) free(p);
  }
}

std::size_t quarantine_bytes() { return stats_number("quarantine\":{\"bytes"); }

void with_a_quarantine() {
  fill_quarantine();
  CHECK(quarantine_bytes() > 2 * kMiB, "what waits is not counted");
  CHECK(quarantine_bytes() < 10 * kMiB, "the quarantine has no bounds");
  CHECK(stats_number("soft_passes") == 0, "below the limit something went back in a hurry");
  std::vector<void*> blocks;
  blocks.reserve(10'000);
  while (stats_number("soft_passes") == 0 && blocks.size() < 10'000) {
    blocks.push_back(malloc(100'000));
    std::memset(blocks.back(), 1, 100'000);
  }
  CHECK(quarantine_bytes() < 64 * 1024, "the quarantine was kept above the soft limit");
  for (void* p : blocks) free(p);
  fill_quarantine();
  CHECK(quarantine_bytes() > kMiB, "nothing waits any more");
  CHECK(malloc_trim(0) == 1, "malloc_trim says that it did nothing");
  CHECK(quarantine_bytes() == 0, "malloc_trim left the quarantine");
}

void with_guarded_objects() {
  const std::size_t before = stats_number("held_bytes");
  constexpr std::size_t kBytes = 16'000;  // 4 OS pages of 4 KiB
  std::vector<void*> blocks;
  blocks.reserve(10'000);
  for (int i = 0; i < 500; ++i) blocks.push_back(malloc(kBytes));
  CHECK(stats_number("objects") >= 500, "guarded objects are not counted");
  CHECK(stats_number("held_bytes") > before + 500 * kBytes, "guarded objects are not held");
  while (void* p = malloc(kBytes)) blocks.push_back(p);
  CHECK(errno == ENOMEM, "out of memory without its errno");
  CHECK(blocks.size() * kBytes < 32 * kMiB, "guarded objects pass the hard limit");
  CHECK(stats_number("peak_bytes") <= 33 * kMiB, "the peak passed the limit");
  for (void* p : blocks) free(p);
  CHECK(stats_number("held_bytes") < 32 * kMiB - 500 * kBytes, "freed guarded objects are held");
}

}  // namespace

int main(int, char** argv) {
  const std::string_view what = argv[1];
  if (what == "hard") under_a_hard_limit();
  if (what == "soft") under_a_soft_limit();
  if (what == "quarantine") with_a_quarantine();
  if (what == "guarded") with_guarded_objects();
  return 0;
}
