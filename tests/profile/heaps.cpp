// Heaps that are live as the process ends, one that has ended, and the malloc beside them.
#include <strata/heap.hpp>

#include <cstdlib>

namespace {

strata::Heap* make(const char* name) {
  strata::Heap::Options options;
  options.name = name;
  return new strata::Heap(options);
}

}  // namespace

int main() {
  strata::Heap* const session = make("session");
  strata::Heap* const cache = make("cache");
  strata::Heap* const request = make("request");
  for (int i = 0; i < 10; ++i) {
    if (session->allocate(1000) == nullptr || request->allocate(500) == nullptr) return 1;
  }
  void* const large = cache->allocate(3'000'000);
  void* const freed = cache->allocate(100);
  void* const other = std::malloc(77'777);
  if (large == nullptr || freed == nullptr || other == nullptr) return 1;
  cache->deallocate(freed);
  delete request;
}
