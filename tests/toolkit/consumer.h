#pragma once

#include <strata/block_allocator.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/memory_resource.hpp>
#include <strata/object_pool.hpp>
#include <strata/page_arena.hpp>
#include <strata/size_class_allocator.hpp>
#include <strata/thread_heaps.hpp>

struct Message {
  explicit Message(int v) : value(v) {}
  int value;
};
using Messages = strata::ObjectPool<Message>;

int use_from_another_file(Messages& messages, strata::BlockAllocator& blocks);
int use_without_exceptions();
