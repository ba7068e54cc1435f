// CoalescingHeap in a buffer of any size and place, or in a region of its own.
#include <strata/coalescing_heap.hpp>

#include <memory>
#include <optional>

#include "shelf.h"

namespace {

using namespace strata;
using fuzz::require;

struct Shelf {
  CoalescingHeap heap;

  void allocate(fuzz::Choices& choices, fuzz::Blocks& model) {
    const bool is_aligned = choices.byte() % 4 == 0;
    const std::size_t bytes = choices.size(heap.capacity_bytes() + 64);
    const std::size_t alignment = is_aligned ? choices.alignment(14) : 16;
    const std::size_t promised = heap.largest_free_block();
    void* const p = is_aligned ? heap.allocate(bytes, alignment) : heap.allocate(bytes);
    if (p != nullptr) return model.add(p, bytes, heap.usable_size(p), alignment);
    require(is_aligned || promised == 0 || bytes > promised, "largest_free_block() can be served");
  }
  void deallocate(const Block& block) { heap.deallocate(block.address); }
  void step(fuzz::Choices& choices, fuzz::Blocks& model) {
    switch (choices.below(5)) {
      case 0:
        return heap.deallocate(nullptr);
      case 1: {
        CoalescingHeap other = std::move(heap);
        require(heap.allocate(1) == nullptr, "a moved heap is empty");
        heap = std::move(other);
        return;
      }
      case 2:
        heap.trim();
        return;
      case 3:
        return walk(model);
      default:
        return reallocate(choices, model);
    }
  }

  void walk(const fuzz::Blocks& model) {
    std::size_t live = 0;
    std::size_t bytes = 0;
    heap.walk([&](const CoalescingHeap::Block& block) {
      live += block.is_free ? 0 : 1;
      bytes += block.bytes + CoalescingHeap::kHeaderBytes;
    });
    require(live == model.count() && heap.live_blocks() == live, "live blocks are counted");
    require(bytes == heap.capacity_bytes(), "the blocks fill the region");
    heap.check_invariants();
  }

  void reallocate(fuzz::Choices& choices, fuzz::Blocks& model) {
    if (model.is_empty()) return;
    const std::size_t bytes = choices.size(heap.capacity_bytes() + 64);
    model.reallocate(
        choices, bytes, [&](void* p) { return heap.reallocate(p, bytes); },
        [&](void* p) { return heap.usable_size(p); });
  }
};

}  // namespace

STRATA_FUZZ(choices) {
  const std::size_t size = choices.size(1 << 18);
  const char* reason = nullptr;
  if (choices.flag()) {
    if (size > std::size_t{1} << 30 && size <= CoalescingHeap::kMaxRegionBytes) return;
    auto made = CoalescingHeap::try_create(size, &reason);
    require(made.has_value() == (reason == nullptr), "no heap has a reason");
    if (made) fuzz::exercise(choices, Shelf{*std::move(made)});
    return;
  }
  const std::size_t shift = choices.below(64);
  const std::size_t whole = size > 1'000'000 ? 1'000'000 : size;
  const std::unique_ptr<char[]> buffer(new char[whole + shift]);
  auto made = CoalescingHeap::try_create(buffer.get() + shift, whole, &reason);
  require(made.has_value() == (reason == nullptr), "no heap has a reason");
  if (made) fuzz::exercise(choices, Shelf{*std::move(made)});
}
