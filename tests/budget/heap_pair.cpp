// heap_pair <count> <way> <bytes>: pairs of allocate() and its free. First as many uncounted ones,
// so that caches have their size; then the counted ones, in pairs(). They are of a Heap
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

struct Way {
  strata::Heap* heap;
  strata::ThreadHeaps* heaps;
  std::size_t bytes;
  std::size_t alignment;
  bool is_raw;
  strata::Heap::SizeClass size_class = strata::Heap::size_class_of(bytes);
};

[[gnu::always_inline]] inline void some_pairs(unsigned long count, const Way& way) {
  for (unsigned long i = 0; i < count; ++i) {
    if (way.heaps != nullptr) {
      void* volatile p = way.alignment != 0 ? way.heaps->try_allocate(way.bytes, way.alignment)
                                            : way.heaps->allocate(way.bytes);
      way.heaps->deallocate(p);
    } else if (way.is_raw) {
      void* volatile p = way.heap->allocate_raw(way.size_class);
      way.heap->deallocate_raw(p, way.size_class);
    } else {
      void* volatile p = way.heap->allocate(way.bytes);
      way.heap->deallocate(p);
    }
  }
}

// The instructions in here are counted. Never inlined: callgrind begins and ends with this
// function. The test leaves out its own instructions.
extern "C" [[gnu::noinline]] void pairs(unsigned long count, const Way& way) {
  some_pairs(count, way);
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
    const Way way{nullptr, &heaps, bytes, is("aligned") ? std::size_t{8} : 0, false};
    some_pairs(count, way);
    pairs(count, way);
    return 0;
  }
  strata::Heap::Options options;
  if (is("frees")) options.checks = strata::Heap::Checks::kFrees;
  if (is("full")) options.checks = strata::Heap::Checks::kFull;
  if (is("guards")) options.guard_rate = 10'000;
  if (is("profile") && !strata::Heap::start_profile()) return 1;
  std::optional<strata::Heap> heap = strata::Heap::try_create(options);
  if (!heap) return 1;
  const Way way{&*heap, nullptr, bytes, 0, is("raw")};
  some_pairs(count, way);  // the bins are there
  pairs(count, way);
}
