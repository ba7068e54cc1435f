// Visible to other libraries: whoever runs their inline functions has their heaps
// (docs/decisions/0014).
#pragma GCC visibility push(default)
#include <strata/thread_heaps.hpp>
#pragma GCC visibility pop

#include "base/fatal.h"
#include "heap/heap_instance.h"

namespace strata {
namespace {

[[noreturn]] void die_without_memory(const void* block) noexcept {
  fatal_pointer("foreign pointer ", block, ": these thread heaps have no memory");
}

/// Allocates from the calling thread's heap, in an instance that it did not use last.
[[gnu::noinline]] void* allocate_elsewhere(HeapInstance* instance, std::size_t bytes,
                                           std::size_t alignment) noexcept {
  if (instance == nullptr) return nullptr;
  if (ThreadHeap* heap = instance->heap()) return heap->allocate(bytes, alignment);
  instance->count_failure();
  return nullptr;
}

[[gnu::noinline]] void deallocate_elsewhere(HeapInstance* instance, void* block) noexcept {
  if (block == nullptr) return;
  if (instance == nullptr) die_without_memory(block);
  if (ThreadHeap* heap = instance->heap()) return heap->deallocate(block);
  instance->free_without_heap(block);
}

}  // namespace

const char ThreadHeaps::kNoMemory[] = "ThreadHeaps: there is no memory for the instance";
const char ThreadHeaps::kTooMany[] = "ThreadHeaps: 64 instances live, and that is the most";
const char ThreadHeaps::kNoKey[] = "ThreadHeaps: the process has no key for its threads left";

std::optional<ThreadHeaps> ThreadHeaps::try_create(const Options& options,
                                                   const char** reason) noexcept {
  static_assert(kMaxInstances == 64, "the sentence says the number");
  const char* sentence = nullptr;
  HeapInstance* instance = HeapInstance::create(options, sentence);
  if (reason != nullptr) *reason = sentence;
  if (instance == nullptr) return std::nullopt;
  return ThreadHeaps(*instance);
}

ThreadHeaps::~ThreadHeaps() {
  if (instance_ != nullptr) instance_->destroy();
}

ThreadHeaps::ThreadHeaps(HeapInstance& instance) noexcept
    : instance_(&instance), generation_(instance.generation()) {}

// What a thread does once is separate from what it always does: the common path calls nothing, and
// so saves no register.

void* ThreadHeaps::allocate(std::size_t bytes) noexcept {
  static_assert(kAlignment == BlockTag::kGranuleBytes, "every block is aligned to a granule");
  if (heap_directory::t_last.generation != generation_) [[unlikely]]
    return allocate_elsewhere(instance_, bytes, BlockTag::kGranuleBytes);
  return heap_directory::t_last.heap->allocate(bytes);
}

void* ThreadHeaps::allocate_aligned(std::size_t bytes, std::size_t alignment) noexcept {
  return allocate_elsewhere(instance_, bytes, alignment);
}

void ThreadHeaps::deallocate(void* block) noexcept {
  if (heap_directory::t_last.generation != generation_) [[unlikely]]
    return deallocate_elsewhere(instance_, block);
  heap_directory::t_last.heap->deallocate(block);
}

void* ThreadHeaps::reallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return allocate(bytes);
  if (instance_ == nullptr) die_without_memory(block);
  if (ThreadHeap* heap = instance_->heap()) return heap->reallocate(block, bytes);
  if (bytes <= usable_size(block)) return block;
  instance_->count_failure();
  return nullptr;
}

std::size_t ThreadHeaps::usable_size(const void* block) const noexcept {
  if (instance_ == nullptr) die_without_memory(block);
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
