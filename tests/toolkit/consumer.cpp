#include "consumer.h"

#include <cstdio>
#include <stdexcept>

int main() {
  strata::PageArena arena(1 << 20);
  strata::BlockAllocator blocks(arena, 40, 100);
  Messages messages(10);
  if (use_from_another_file(messages, blocks) != 42) return 1;
  if (use_without_exceptions() != 0) return 2;
  try {
    strata::PageArena nothing(0);
    return 3;
  } catch (const std::invalid_argument&) {
  }
  strata::ThreadHeaps heaps;
  strata::MemoryResource<strata::ThreadHeaps> resource(heaps);
  resource.deallocate(resource.allocate(100), 100);
  if (heaps.statistics().allocations != 1 || heaps.statistics().frees != 1) return 4;
  std::puts("consumer ok");
}
