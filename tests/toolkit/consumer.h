#pragma once

#include <strata/allocator.hpp>
#include <strata/block_allocator.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/memory_resource.hpp>
#include <strata/message_queue.hpp>
#include <strata/object_pool.hpp>
#include <strata/page_arena.hpp>
#include <strata/size_class_allocator.hpp>
#include <strata/thread_heaps.hpp>

struct Message {
  explicit Message(int v) : value(v) {}
  int value;
};
using Messages = strata::ObjectPool<Message>;

/// Its constructor may throw; it is defined in a file where it can.
struct PositiveMessage {
  explicit PositiveMessage(int v);
  int value;
};
using PositiveMessages = strata::MessageQueue<PositiveMessage, 2>;

using Sizes = strata::SizeClassAllocator;
using SizesResource = strata::MemoryResource<Sizes>;

inline strata::ThreadHeaps::Options contradictory_options() {
  strata::ThreadHeaps::Options options;
  options.total_budget_bytes = 1;
  return options;
}

int use_from_another_file(Messages& messages, strata::BlockAllocator& blocks);
int use_without_exceptions();
/// Makes the request that `what` names, which is refused.
void be_refused_without_exceptions(const char* what);

/// Uses all that may refuse, here without a reason to. Each file that includes this compiles it in
/// its own way.
template <typename Use>
int use_what_may_refuse(Use use) {
  strata::PageArena arena(1 << 20);
  strata::BlockAllocator on_pages(arena, 40, 100);
  static char buffer[4096];
  strata::BlockAllocator in_buffer(buffer, sizeof buffer, 40);
  strata::SizeClassAllocator sizes;
  strata::SizeClassAllocator shared(arena, {32, 64}, 4096);
  std::size_t class_size = 0;
  sizes.deallocate(sizes.allocate(100));
  void* block = shared.allocate(50, class_size);
  shared.deallocate(block, class_size);
  Messages messages(10);
  auto message = messages.make(6);
  Messages in_place(buffer, sizeof buffer);
  strata::Allocator<int, strata::SizeClassAllocator> allocator(sizes);
  allocator.deallocate(allocator.allocate(1), 1);
  strata::CoalescingHeap heap(1 << 16);
  heap.deallocate(heap.allocate(100));
  strata::ThreadHeaps heaps;
  heaps.deallocate(heaps.allocate(100));
  auto object = strata::make_unique_from<int>(sizes, 7);
  return use(message->value * *object);
}
