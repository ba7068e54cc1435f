// After a burst of 1 GiB the process is idle: at least 80% of it goes back to the kernel without
// another call of the malloc. That takes two seconds; a busy machine gets as long as it needs.
//
// usage: idle_return <bytes per block> [threads]
//        idle_return <bytes per block> child    the same in a child of fork(), whose parent's
//                                               scavenger is at work

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "operations/strata_api.h"
#include "support/check.h"
#include "support/child.h"
#include "support/memory.h"

namespace {

constexpr std::size_t kBurst = kGiB;

/// Allocates `total` bytes and writes to them, waits until the other threads have done so, and
/// frees.
void burst(std::size_t block_bytes, std::size_t total, std::barrier<>& all_allocated) {
  const std::size_t count = total / block_bytes;
  // The list of blocks does not belong to the burst: it has its own mapping, which goes at the end.
  std::vector<void*> blocks(count);
  for (void*& p : blocks) {
    p = malloc(block_bytes);
    CHECK(p != nullptr, "malloc failed");
    std::memset(p, 1, block_bytes);
  }
  all_allocated.arrive_and_wait();
  for (void* p : blocks) free(p);
}

void expect_return(std::size_t block_bytes, int threads_count) {
  const std::size_t before = resident_bytes();
  std::barrier<> all_allocated(threads_count);
  if (threads_count == 1) {
    burst(block_bytes, kBurst, all_allocated);
  } else {
    std::vector<std::thread> threads;
    for (int i = 0; i < threads_count; ++i) {
      threads.emplace_back(burst, block_bytes, kBurst / static_cast<std::size_t>(threads_count),
                           std::ref(all_allocated));
    }
    for (auto& thread : threads) thread.join();
  }
  const std::size_t peak = peak_resident_bytes() - before;
  CHECK(peak > kBurst * 9 / 10, "the burst was none");
  for (int tenths = 0; tenths < 1200; ++tenths) {
    if (resident_bytes() < before + peak / 5) {
      printf("80%% of %zu MiB were back after %d.%d s\n", peak / kMiB, tenths / 10, tenths % 10);
      return;
    }
    usleep(100'000);
  }
  fprintf(stderr, "%zu of %zu MiB are still resident\n", (resident_bytes() - before) / kMiB,
          peak / kMiB);
  _exit(1);
}

/// Frees so much that the scavenger wakes.
void wake_the_scavenger() {
  void* const block = malloc(16 * kMiB);
  CHECK(block != nullptr, "malloc failed");
  std::memset(block, 1, 16 * kMiB);
  free(block);
  CHECK(stats_number("threads_started") > 0, "the scavenger sleeps");
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t block_bytes = argc > 1 ? strtoul(argv[1], nullptr, 10) : 1000;
  if (argc > 2 && std::strcmp(argv[2], "child") == 0) {
    wake_the_scavenger();
    expect_in_child("the burst in a child", [=] { expect_return(block_bytes, 1); });
  } else {
    expect_return(block_bytes, argc > 2 ? atoi(argv[2]) : 1);
  }
  return 0;
}
