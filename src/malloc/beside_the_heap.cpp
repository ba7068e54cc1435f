// What the malloc serves beside the heap: the first blocks of a process, calls that must not wait,
// and blocks of 0 bytes.

#include "malloc/malloc_instance.h"
#include "os/errors.h"

namespace strata {

/// Makes a block of 0 bytes that can only be freed, which no watcher has chosen.
/// \returns  nullptr: serve it like any other
void* MallocInstance::allocate_empty(const Allocation& allocation) noexcept {
  // A heap that can end, or be emptied, has to find all its blocks.
  const bool is_apt = allocation.alignment <= EmptyBlocks::kBlockBytes && has_empty_blocks() &&
                      engine_.lives_for_ever();
  if (!is_apt) return nullptr;
  if (empties_.reserved_bytes() == 0) host_.begin_empty_blocks(*this);
  return empties_.allocate();
}

Engine::Block MallocInstance::serve_spare(const Allocation& allocation) noexcept {
  const SpareMemory::Block block = spare_.allocate(allocation.bytes, allocation.alignment);
  if (block.address == nullptr) os::set_errno_no_memory();
  return {block.address, block.is_zero};
}

/// Serves an allocation without starting the heap: most small programs end before they need one.
/// What may be guarded starts the heap.
/// \returns  no block if this one should start it
Engine::Block MallocInstance::serve_before_start(const Allocation& allocation) noexcept {
  if (allocation.bytes > SizeClassMap::kMaxBytes || is_looked_at_.load(std::memory_order_relaxed) ||
      detour_.is_on() || !host_.count_first_block()) {
    return {nullptr, false};
  }
  void* const empty = allocation.bytes == 0 ? allocate_empty(allocation) : nullptr;
  if (empty != nullptr) return {empty, true};
  const SpareMemory::Block block = spare_.allocate_first(allocation.bytes, allocation.alignment);
  return {block.address, block.is_zero};
}

}  // namespace strata
