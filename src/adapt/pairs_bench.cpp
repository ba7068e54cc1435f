#include <strata/bitmap_pool.hpp>
#include <strata/block_allocator.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/growing_block_allocator.hpp>
#include <strata/heap.hpp>
#include <strata/memory_resource.hpp>
#include <strata/message_queue.hpp>
#include <strata/object_pool.hpp>
#include <strata/page_arena.hpp>
#include <strata/size_class_allocator.hpp>
#include <strata/thread_heaps.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

/// \file  What an allocation and a free take in each allocator of the shelf, in the same loop, for
///        callgrind: one thread with 64 live blocks frees the oldest and allocates a new one.
///
/// usage: pairs_bench WAY BYTES PAIRS
///
/// The instructions of a pair are the difference of two counts of PAIRS, less that of `none`.

namespace {

using namespace strata;

constexpr std::size_t kLive = 64;
constexpr std::size_t kRoom = std::size_t{16} << 20;

/// Dies if there is no block, so that only completed work is counted.
void* expect(void* block) {
  if (block == nullptr) std::abort();
  asm volatile("" : "+r"(block) : : "memory");
  return block;
}

template <typename Allocate, typename Free>
[[gnu::noinline]] void run(std::size_t pairs, Allocate allocate, Free free) {
  void* live[kLive];
  for (void*& block : live) block = expect(allocate());
  for (std::size_t i = 0; i < pairs; ++i) {
    void*& oldest = live[i % kLive];
    free(oldest);
    oldest = expect(allocate());
  }
  for (void* block : live) free(block);
}

template <typename Source>
void run_with(std::size_t pairs, Source& source) {
  run(
      pairs, [&] { return source.allocate(); }, [&](void* block) { source.deallocate(block); });
}
template <typename Source>
void run_with(std::size_t pairs, Source& source, std::size_t bytes) {
  run(
      pairs, [&] { return source.allocate(bytes); },
      [&](void* block) { source.deallocate(block); });
}

struct Object {
  char bytes[64];
};

template <Checks checks>
void run_objects(std::size_t pairs) {
  ObjectPool<Object, checks> pool(kLive);
  run(
      pairs, [&] { return static_cast<void*>(pool.create()); },
      [&](void* object) { pool.destroy(static_cast<Object*>(object)); });
}

/// Runs phases: each allocates as many blocks as are live in the other ways, and ends.
void run_arena(std::size_t pairs, std::size_t bytes) {
  PageArena arena(kRoom);
  MemoryResource<PageArena> memory(arena);
  for (std::size_t i = 0; i < pairs; ++i) {
    expect(memory.allocate(bytes, 16));
    if (i % kLive == kLive - 1) memory.reset();
  }
}

void run_queue(std::size_t pairs) {
  MessageQueue<Object, kLive> queue;
  for (std::size_t i = 0; i < pairs; ++i) {
    if (!queue.try_emplace()) std::abort();
    if (!queue.try_consume([](Object& message) { expect(&message); })) std::abort();
  }
}

bool run_way(std::string_view way, std::size_t bytes, std::size_t pairs) {
  if (way == "none") {
    static char block[64];
    run(
        pairs, [] { return static_cast<void*>(block); },
        [](void* p) {
          asm volatile("" : : "r"(p) : "memory");
        });
  } else if (way == "malloc") {
    run(
        pairs, [&] { return std::malloc(bytes); }, [](void* block) { std::free(block); });
  } else if (way == "heap") {
    Heap heap;
    run_with(pairs, heap, bytes);
  } else if (way == "raw") {
    Heap heap;
    const Heap::SizeClass size_class = Heap::size_class_of(bytes);
    run(
        pairs, [&] { return heap.allocate_raw(size_class); },
        [&](void* block) { heap.deallocate_raw(block, size_class); });
  } else if (way == "thread_heaps") {
    ThreadHeaps heaps;
    run_with(pairs, heaps, bytes);
  } else if (way == "coalescing") {
    CoalescingHeap heap(kRoom);
    run_with(pairs, heap, bytes);
  } else if (way == "arena") {
    run_arena(pairs, bytes);
  } else if (way == "blocks" || way == "unchecked_blocks" || way == "growing") {
    PageArena arena(kRoom);
    if (way == "growing") {
      GrowingBlockAllocator blocks(arena, bytes);
      run_with(pairs, blocks);
    } else if (way == "blocks") {
      BlockAllocator blocks(arena, bytes, kLive);
      run_with(pairs, blocks);
    } else {
      UncheckedBlockAllocator blocks(arena, bytes, kLive);
      run_with(pairs, blocks);
    }
  } else if (way == "classes") {
    SizeClassAllocator classes({32, 64, 128, 1024}, kRoom / 8);
    run_with(pairs, classes, bytes);
  } else if (way == "unchecked_classes") {
    UncheckedSizeClassAllocator classes({32, 64, 128, 1024}, kRoom / 8);
    run_with(pairs, classes, bytes);
  } else if (way == "objects") {
    run_objects<Checks::kAlways>(pairs);
  } else if (way == "unchecked_objects") {
    run_objects<Checks::kNever>(pairs);
  } else if (way == "bitmap") {
    static BitmapPool<64, kLive> pool;
    run_with(pairs, pool);
  } else if (way == "queue") {
    run_queue(pairs);
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 4 && run_way(arguments[1], std::strtoull(arguments[2], nullptr, 10),
                            std::strtoull(arguments[3], nullptr, 10)))
    return 0;
  std::fprintf(stderr,
               "usage: pairs_bench WAY BYTES PAIRS\n"
               "ways: none malloc heap raw thread_heaps coalescing arena blocks unchecked_blocks "
               "growing classes unchecked_classes objects unchecked_objects bitmap queue\n");
  return 2;
}
