// strata/heap.h: every function calls the one of strata::Heap.

#include <strata/heap.h>
#include <strata/heap.hpp>

#include <bit>
#include <new>
#include <optional>
#include <utility>

#include "os/errors.h"
#include "user_heap/user_heap.h"

struct strata_heap {
  strata::Heap heap;

  /// Puts it where C finds it: in the heap's own record.
  static strata_heap* keep(strata::Heap&& made) noexcept {
    return new (made.heap_->handle_in_c()) strata_heap{std::move(made)};
  }
};

static_assert(sizeof(strata_heap) == sizeof(strata::Heap), "the record has room for one");

namespace {

/// \param pages  gets the source that the options lead to
strata::Heap::Options options_of(const strata_heap_options& from,
                                 strata::Heap::PageSource& pages) noexcept {
  strata::Heap::Options options;
  options.name = from.name;
  options.soft_limit_bytes = from.soft_limit_bytes;
  options.hard_limit_bytes = from.hard_limit_bytes;
  options.reclaims = !from.keeps_idle_memory;
  if (from.reclaim_delay_ms != 0) options.reclaim_delay_ms = from.reclaim_delay_ms;
  if (from.checks_frees) options.checks = strata::Heap::Checks::kFrees;
  if (from.checks_fully) options.checks = strata::Heap::Checks::kFull;
  options.guard_rate = from.guard_rate;
  options.huge_pages = static_cast<strata::Heap::HugePages>(from.huge_pages);
  if (from.pages != nullptr) {
    pages = {from.pages->context, from.pages->map, from.pages->unmap, from.pages->purge};
    options.pages = &pages;
  }
  return options;
}

}  // namespace

extern "C" {

strata_heap* strata_heap_create(const strata_heap_options* options, const char** reason) noexcept {
  strata::Heap::PageSource pages;
  std::optional<strata::Heap> made = strata::Heap::try_create(
      options != nullptr ? options_of(*options, pages) : strata::Heap::Options(), reason);
  return made.has_value() ? strata_heap::keep(std::move(*made)) : nullptr;
}

void strata_heap_destroy(strata_heap* heap) noexcept {
  // Its end takes the handle with it.
  if (heap != nullptr) strata::Heap(std::move(heap->heap));
}

void* strata_heap_malloc(strata_heap* heap, std::size_t bytes) noexcept {
  return heap->heap.allocate(bytes);
}

void* strata_heap_calloc(strata_heap* heap, std::size_t count, std::size_t bytes) noexcept {
  return heap->heap.allocate_zeroed(count, bytes);
}

void* strata_heap_aligned_alloc(strata_heap* heap, std::size_t alignment,
                                std::size_t bytes) noexcept {
  if (!std::has_single_bit(alignment)) {
    strata::os::set_errno_invalid();
    return nullptr;
  }
  return heap->heap.allocate_aligned(bytes, alignment);
}

void* strata_heap_realloc(strata_heap* heap, void* block, std::size_t bytes) noexcept {
  return heap->heap.reallocate(block, bytes);
}

void strata_heap_free(strata_heap* heap, void* block) noexcept { heap->heap.deallocate(block); }

void strata_heap_free_sized(strata_heap* heap, void* block, std::size_t bytes) noexcept {
  heap->heap.deallocate(block, bytes);
}

std::size_t strata_heap_size_class(std::size_t bytes) noexcept {
  return static_cast<std::size_t>(strata::Heap::size_class_of(bytes));
}

void* strata_heap_malloc_raw(strata_heap* heap, std::size_t size_class) noexcept {
  return heap->heap.allocate_raw(strata::Heap::SizeClass{size_class});
}

void strata_heap_free_raw(strata_heap* heap, void* block, std::size_t size_class) noexcept {
  heap->heap.deallocate_raw(block, strata::Heap::SizeClass{size_class});
}

std::size_t strata_heap_usable_size(const strata_heap* heap, const void* block) noexcept {
  return heap->heap.usable_size(block);
}

bool strata_heap_resize_in_place(strata_heap* heap, void* block, std::size_t bytes) noexcept {
  return heap->heap.resize_in_place(block, bytes);
}

std::size_t strata_heap_good_size(std::size_t bytes) noexcept {
  return strata::Heap::good_size(bytes);
}

bool strata_heap_owns(const strata_heap* heap, const void* address) noexcept {
  return heap->heap.owns(address);
}

void strata_heap_reset(strata_heap* heap) noexcept { heap->heap.reset(); }

bool strata_heap_release_memory(strata_heap* heap) noexcept { return heap->heap.release_memory(); }

const char* strata_heap_name(const strata_heap* heap) noexcept { return heap->heap.name(); }

void strata_heap_statistics_of(const strata_heap* heap,
                               strata_heap_statistics* statistics) noexcept {
  const strata::Heap::Statistics now = heap->heap.statistics();
  *statistics = {now.mapped, now.live, now.cached,     now.free,       now.metadata, now.returned,
                 now.held,   now.peak, now.soft_limit, now.hard_limit, now.refusals, now.threads};
}

std::size_t strata_heap_stats_json(const strata_heap* heap, char* buffer,
                                   std::size_t size) noexcept {
  return heap->heap.write_statistics_json(buffer, size);
}

std::size_t strata_heap_stats_text(const strata_heap* heap, char* buffer,
                                   std::size_t size) noexcept {
  return heap->heap.write_statistics(buffer, size);
}

bool strata_heap_profile_start(std::size_t rate) noexcept {
  return strata::Heap::start_profile(rate);
}

void strata_heap_profile_stop() noexcept { strata::Heap::stop_profile(); }

bool strata_heap_profile_write(const char* path) noexcept {
  return strata::Heap::write_profile(path);
}

}  // extern "C"
