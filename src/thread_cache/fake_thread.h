#pragma once

#include <cstddef>
#include <memory>

#include "central/central.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"
#include "thread_cache/thread_cache.h"
#include "thread_cache/thread_registry.h"

namespace strata {

/// All layers below a thread cache, over the test's page source.
struct FakeProcess {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  std::unique_ptr<Central> central = std::make_unique<Central>(space.spans, space.metadata);
  CacheBudget budget{space.heap, std::size_t{32} << 20};

  std::unique_ptr<ThreadCache> make_cache() {
    budget.add_thread();
    return std::make_unique<ThreadCache>(*central, budget, space.metadata);
  }
  std::size_t used_pages() { return space.heap.statistics().used_pages; }
};

/// malloc and free of one class, as a thread does them.
inline void* allocate_from(ThreadCache& cache, unsigned size_class) {
  void* object = cache.pop(size_class);
  if (object == nullptr) object = cache.refill_and_pop(size_class);
  return FreeObject(object).address();
}
inline void deallocate_into(ThreadCache& cache, unsigned size_class, void* object) {
  if (!cache.push(size_class, object)) cache.flush_and_push(size_class, object);
}

inline std::size_t held_bytes(ThreadCache& cache) {
  std::size_t bytes = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c)
    bytes += cache.count_objects(c) * SizeClassMap::bytes_of(c);
  return bytes;
}

}  // namespace strata
