#pragma once

#include <strata/coalescing_heap.hpp>
#include <strata/thread_heaps.hpp>

#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <new>

namespace strata {

/// A std::pmr::memory_resource over a CoalescingHeap or a ThreadHeaps, which must outlive it:
///
///   strata::ThreadHeaps heaps(options);
///   strata::HeapResource resource(heaps);
///   std::pmr::vector<int> numbers(&resource);
///
/// Out of memory is std::bad_alloc, as the interface asks; without exceptions it is std::abort.
/// \threads  As the heap's.
/// \cost     The heap's, and one virtual call.
template <typename Heap>
class HeapResource final : public std::pmr::memory_resource {
 public:
  explicit HeapResource(Heap& heap) noexcept : heap_(&heap) {}

  Heap& heap() const noexcept { return *heap_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* block = heap_->allocate(bytes, alignment);
    if (block == nullptr) refuse();
    return block;
  }

  void do_deallocate(void* block, std::size_t, std::size_t) override { heap_->deallocate(block); }

  /// Two resources are equal if what one allocates the other can free: if they share the heap.
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    if (this == &other) return true;
#if defined(__cpp_rtti)
    const auto* same = dynamic_cast<const HeapResource*>(&other);
    return same != nullptr && same->heap_ == heap_;
#else
    return false;
#endif
  }

  [[noreturn]] static void refuse() {
#if defined(__cpp_exceptions)
    throw std::bad_alloc();
#else
    std::abort();
#endif
  }

  Heap* heap_;
};

using CoalescingHeapResource = HeapResource<CoalescingHeap>;
using ThreadHeapsResource = HeapResource<ThreadHeaps>;

}  // namespace strata
