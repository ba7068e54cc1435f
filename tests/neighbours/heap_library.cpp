// A part of a program: a library, or the program itself. It is linked with its own strata::heap and
// strata::toolkit. See heap_libraries.cpp.

#include <strata/strata.hpp>

#include <unistd.h>

#include <functional>
#include <map>
#include <memory_resource>
#include <vector>

#include "support/check.h"

namespace {

template <typename Source>
void fill(Source& source) {
  using Allocator = strata::Allocator<std::pair<const int, int>, Source>;
  std::map<int, int, std::less<int>, Allocator> map(source);
  strata::MemoryResource<Source> resource(source);
  std::pmr::vector<int> vector(&resource);
  for (int i = 0; i < 1000; ++i) {
    map[i] = i;
    vector.push_back(i);
    CHECK(source.owns(&map[i]), "the map lies elsewhere");
    CHECK(source.owns(&vector[0]), "the vector lies elsewhere");
  }
  const auto number = strata::make_unique_from<int>(source, 1);
  CHECK(source.owns(number.get()), "the number lies elsewhere");
}

}  // namespace

/// Uses heaps of this part before and after `meanwhile`.
extern "C" [[gnu::visibility("default")]] void use_heaps(const std::function<void()>& meanwhile) {
  strata::Heap heap;
  strata::ThreadHeaps thread_heaps;
  for (int round = 0; round < 2; ++round) {
    fill(heap);
    fill(thread_heaps);
    CHECK(heap.statistics().live == 0, "a block of the heap is left");
    CHECK(thread_heaps.statistics().bytes_in_use == 0, "a block of the thread heaps is left");
    if (round == 0) meanwhile();
  }
  heap.check_invariants();
  thread_heaps.check_invariants();
}
