// heap_pair <count> <way> <bytes>: so many pairs of allocate() and its free in pairs(), in a Heap
//   plain · frees · full · guards    as its options say
//   profile                          while a profile is taken of all heaps
//   raw                              by Heap::allocate_raw() and its free
// or in ThreadHeaps
//   shared · own                     whose arenas threads share, or have each for itself
//   aligned                          shared, by try_allocate() with an alignment of 8, as adapters
#include <strata/heap.hpp>
#include <strata/thread_heaps.hpp>

#include <cstdlib>
#include <cstring>
#include <optional>

// The instructions in here are counted. Never inlined: callgrind begins and ends with this
// function. The test leaves out its own instructions.
extern "C" [[gnu::noinline]] void pairs(unsigned long count, strata::Heap* heap,
                                        strata::ThreadHeaps* heaps, std::size_t bytes,
                                        std::size_t alignment, bool is_raw) {
  const strata::Heap::SizeClass size_class = strata::Heap::size_class_of(bytes);
  for (unsigned long i = 0; i < count; ++i) {
    if (heaps != nullptr) {
      void* volatile p =
          alignment != 0 ? heaps->try_allocate(bytes, alignment) : heaps->allocate(bytes);
      heaps->deallocate(p);
    } else if (is_raw) {
      void* volatile p = heap->allocate_raw(size_class);
      heap->deallocate_raw(p, size_class);
    } else {
      void* volatile p = heap->allocate(bytes);
      heap->deallocate(p);
    }
  }
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const auto is = [&](const char* way) { return std::strcmp(argv[2], way) == 0; };
  const unsigned long count = std::strtoul(argv[1], nullptr, 10);
  const std::size_t bytes = std::strtoul(argv[3], nullptr, 10);
  if (is("shared") || is("own") || is("aligned")) {
    strata::ThreadHeaps::Options options;
    if (is("own")) options.thread_budget_bytes = std::size_t{16} << 20;
    strata::ThreadHeaps heaps(options);
    heaps.deallocate(heaps.allocate(bytes));
    pairs(count, nullptr, &heaps, bytes, is("aligned") ? 8 : 0, false);
    return 0;
  }
  strata::Heap::Options options;
  if (is("frees")) options.checks = strata::Heap::Checks::kFrees;
  if (is("full")) options.checks = strata::Heap::Checks::kFull;
  if (is("guards")) options.guard_rate = 10'000;
  if (is("profile") && !strata::Heap::start_profile()) return 1;
  std::optional<strata::Heap> heap = strata::Heap::try_create(options);
  if (!heap) return 1;
  for (int i = 0; i < 64; ++i) heap->deallocate(heap->allocate(bytes));  // the bins are there
  pairs(count, &*heap, nullptr, bytes, 0, is("raw"));
}
