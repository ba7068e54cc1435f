#include <strata/thread_heaps.hpp>

#include "base/fatal.h"
#include "heap/free_block.h"
#include "heap/heap_instance.h"

namespace strata {

ThreadHeaps::ThreadHeaps(const Options& options) noexcept
    : instance_(HeapInstance::create(options)) {}

ThreadHeaps::~ThreadHeaps() {
  if (instance_ != nullptr) instance_->destroy();
}

void* ThreadHeaps::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (instance_ == nullptr) return nullptr;
  ThreadHeap* heap = instance_->heap();
  if (heap == nullptr) [[unlikely]] {
    instance_->count_failure();
    return nullptr;
  }
  return heap->allocate(bytes, alignment);
}

void ThreadHeaps::deallocate(void* block) noexcept {
  if (block == nullptr) return;
  if (instance_ == nullptr) {
    fatal_pointer("foreign pointer ", block, ": these thread heaps have no memory");
  }
  if (ThreadHeap* heap = instance_->heap()) [[likely]] {
    heap->deallocate(block);
  } else {
    instance_->free_without_heap(block);
  }
}

void* ThreadHeaps::reallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return allocate(bytes);
  if (instance_ == nullptr) {
    fatal_pointer("foreign pointer ", block, ": these thread heaps have no memory");
  }
  ThreadHeap* heap = instance_->heap();
  return heap != nullptr ? heap->reallocate(block, bytes) : nullptr;
}

std::size_t ThreadHeaps::usable_size(const void* block) const noexcept {
  if (instance_ == nullptr) {
    fatal_pointer("foreign pointer ", block, ": these thread heaps have no memory");
  }
  return ThreadHeap::usable_size(instance_->arena_of(block), block);
}

bool ThreadHeaps::owns(const void* address) const noexcept {
  return instance_ != nullptr && instance_->owns(address);
}

std::size_t ThreadHeaps::reclaim_now() noexcept {
  if (instance_ == nullptr) return 0;
  if (ThreadHeap* heap = instance_->heap_if_any()) heap->flush();
  bool is_young = false;
  return instance_->sweep(/*is_forced=*/true, is_young);
}

bool ThreadHeaps::has_reclaimer() const noexcept {
  return instance_ != nullptr && instance_->has_reclaimer();
}

ThreadHeaps::Statistics ThreadHeaps::statistics() const noexcept {
  return instance_ != nullptr ? instance_->statistics() : Statistics();
}

void ThreadHeaps::check_invariants() noexcept {
  if (instance_ != nullptr) instance_->check_invariants();
}

}  // namespace strata
