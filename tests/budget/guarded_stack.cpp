// How much stack a guarded block takes: signal handlers may run on a small one. Without options the
// first block beyond the size classes is guarded.

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "support/check.h"

namespace {

constexpr std::size_t kBlockBytes = 200'000;
constexpr std::size_t kPaintedBytes = 16 << 10;
// Chosen: what a call takes, and a third more.
constexpr std::size_t kMostBytes = 2048;
void* volatile g_block;

[[gnu::noinline]] void paint() {
  volatile unsigned char below[kPaintedBytes];
  for (volatile unsigned char& each : below) each = 0x5a;
}

/// \pre  called from the same place as paint()
[[gnu::noinline]] std::size_t changed_bytes() {
  volatile unsigned char below[kPaintedBytes];
  asm volatile("" : : "r"(below) : "memory");
  std::size_t unchanged = 0;
  while (unchanged < kPaintedBytes && below[unchanged] == 0x5a) ++unchanged;
  return kPaintedBytes - unchanged;
}

[[gnu::noinline]] std::size_t stack_of(void (*call)()) {
  paint();
  call();
  return changed_bytes();
}

void* measure(void*) {
  const std::size_t of_malloc = stack_of([] { g_block = malloc(kBlockBytes); });
  CHECK(g_block != nullptr && malloc_usable_size(g_block) == kBlockBytes, "it is not guarded");
  const std::size_t of_free = stack_of([] { free(g_block); });
  std::printf("malloc %zu, free %zu bytes of stack\n", of_malloc, of_free);
  CHECK(of_malloc <= kMostBytes, "malloc of a guarded block takes more stack");
  CHECK(of_free <= kMostBytes, "free of a guarded block takes more stack");
  return nullptr;
}

}  // namespace

int main() {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, measure, nullptr) == 0, "no thread");
  pthread_join(thread, nullptr);
}
