#include "malloc/checked_heap.h"

#include <algorithm>
#include <cstring>

#include "base/fatal.h"
#include "guard/pattern.h"

namespace strata {

Engine::Block CheckedHeap::allocate(const Allocation& allocation) noexcept {
  if (allocation.bytes > Engine::kMaxBytes) return {nullptr, false};
  const std::size_t bytes = allocation.bytes + CheckedObjects::kLeastSlack;
  const std::size_t alignment = std::max(allocation.alignment, SizeClassMap::kGrain);
  const unsigned size_class = SizeClassMap::class_of_aligned(bytes, alignment);
  if (size_class != 0) return Engine::as_block(objects_.allocate(size_class, allocation));
  // A block that fits a page run does so with slack, too: where there is none, nothing is watched.
  const bool fits_pages = allocation.bytes <= Engine::kMaxLargeBytes;
  const Engine::Block block = engine_.allocate_large(
      fits_pages ? std::min(bytes, Engine::kMaxLargeBytes) : bytes, alignment);
  if (block.address == nullptr) return block;
  // Filled before it is in the table: a process that ends meanwhile, or the child of a fork, looks
  // at all that is there.
  std::memset(static_cast<char*>(block.address) + allocation.bytes, kSlackByte,
              watched_slack(block.address, allocation.bytes));
  if (blocks_.insert(block.address, allocation)) return block;
  engine_.deallocate_large(block.address);
  return {nullptr, false};
}

void CheckedHeap::deallocate(void* p, unsigned size_class, const FreeCall& call) noexcept {
  engine_.expect_own_region("free", p);
  if (size_class != 0) return objects_.deallocate(size_class, p, call);
  Allocation allocation;
  // What the table does not know is not live: the engine has the sentence for it.
  if (blocks_.remove(p, allocation)) {
    TextWriter sentence;
    if (contradicts(call, allocation, p, sentence)) fatal_about(p, sentence.view());
    verify_slack(p, allocation.bytes);
  }
  engine_.deallocate_large(p);
  if (engine_.huge().kept_bytes() != 0) engine_.huge().release_all();
}

std::size_t CheckedHeap::requested_bytes(const void* p, const char* action) noexcept {
  engine_.expect_own_region(action, p);
  if (const std::size_t size_class = engine_.class_of(p))
    return objects_.requested_bytes(static_cast<unsigned>(size_class), p, action);
  Allocation allocation;
  if (blocks_.find(p, allocation)) return allocation.bytes;
  return engine_.usable_bytes(p, action);  // no live block: does not return
}

void CheckedHeap::verify_all() noexcept {
  objects_.verify_all(engine_.page_heap());
  blocks_.for_each([this](std::uintptr_t block, const Allocation& allocation) {
    verify_slack(reinterpret_cast<const void*>(block), allocation.bytes);
  });
}

void CheckedHeap::verify_slack(const void* block, std::size_t bytes) noexcept {
  strata::verify_slack(static_cast<const char*>(block), bytes, watched_slack(block, bytes));
}

/// How many bytes after the block's own are watched.
std::size_t CheckedHeap::watched_slack(const void* block, std::size_t bytes) noexcept {
  return std::min(engine_.usable_bytes(block, "free") - bytes, kMostBlockSlack);
}

void CheckedHeap::hold_locks_for_fork() noexcept {
  objects_.hold_locks_for_fork();
  LocksInFork::hold(blocks_.lock());
}

}  // namespace strata
