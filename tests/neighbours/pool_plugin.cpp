// A library with pools that is really gone when it is closed. See pool_plugins.cpp.

#include <strata/strata.hpp>

extern "C" [[gnu::visibility("default")]] bool use_pools() {
  strata::PageArena arena(1 << 20);
  strata::BlockAllocator blocks(arena, 32, 10);
  strata::GrowingBlockAllocator growing(arena, 32);
  strata::SizeClassAllocator sizes;
  strata::ObjectPool<int> objects(1);
  static strata::BitmapPool<64, 64> pool;
  static strata::MessageQueue<int, 4> queue;
  blocks.deallocate(blocks.allocate());
  growing.deallocate(growing.allocate());
  sizes.deallocate(sizes.allocate(100));
  objects.destroy(objects.create(1));
  int message = 0;
  return pool.deallocate(pool.allocate()) && queue.try_push(1) && queue.try_pop(message);
}
