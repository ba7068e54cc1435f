// hot_pair <count> <way> <bytes> <alignment> [<kept>]: pairs of an allocation and a free of one
// kind. First as many uncounted ones, so that caches have their size; then the counted ones, in
// pairs(). Before all of them so many objects of 16 bytes, which stay.
//   malloc · calloc
//   aligned_alloc · posix_memalign · new    with the alignment
//   sized      new and a delete that says the size
//   usable     a look at the usable size, too
//   nothing    a null pointer is freed, too
//   in_place   a realloc that leaves the object where it is, too
//   realloc    a block that grows to <bytes> in steps of <alignment> bytes, instead of a pair
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace {

using Pair = void (*)(std::size_t bytes, std::size_t alignment);

void malloc_pair(std::size_t bytes, std::size_t) {
  void* volatile p = std::malloc(bytes);
  std::free(p);
}
void calloc_pair(std::size_t bytes, std::size_t) {
  void* volatile p = std::calloc(1, bytes);
  std::free(p);
}
void sized_pair(std::size_t bytes, std::size_t) {
  void* volatile p = ::operator new(bytes);
  ::operator delete(p, bytes);
}
void usable_pair(std::size_t bytes, std::size_t) {
  void* volatile p = std::malloc(bytes);
  if (malloc_usable_size(p) < bytes) std::abort();
  std::free(p);
}
void nothing_pair(std::size_t bytes, std::size_t) {
  void* volatile p = nullptr;
  std::free(p);
  p = std::malloc(bytes);
  std::free(p);
}
void in_place_pair(std::size_t bytes, std::size_t) {
  void* volatile p = std::malloc(bytes);
  p = std::realloc(p, bytes - bytes / 4);
  std::free(p);
}
void aligned_alloc_pair(std::size_t bytes, std::size_t alignment) {
  void* volatile p = std::aligned_alloc(alignment, bytes);
  std::free(p);
}
void posix_memalign_pair(std::size_t bytes, std::size_t alignment) {
  void* p = nullptr;
  if (posix_memalign(&p, alignment, bytes) != 0) std::abort();
  std::free(p);
}
void new_pair(std::size_t bytes, std::size_t alignment) {
  const auto boundary = static_cast<std::align_val_t>(alignment);
  void* volatile p = ::operator new(bytes, boundary);
  ::operator delete(p, bytes, boundary);
}
void realloc_growth(std::size_t bytes, std::size_t step) {
  void* volatile p = nullptr;
  for (std::size_t grown = step; grown <= bytes; grown += step) p = std::realloc(p, grown);
  std::free(p);
}

constexpr struct {
  const char* name;
  Pair pair;
} kWays[] = {{"malloc", malloc_pair},
             {"calloc", calloc_pair},
             {"sized", sized_pair},
             {"usable", usable_pair},
             {"nothing", nothing_pair},
             {"in_place", in_place_pair},
             {"aligned_alloc", aligned_alloc_pair},
             {"posix_memalign", posix_memalign_pair},
             {"new", new_pair},
             {"realloc", realloc_growth}};

}  // namespace

// The instructions in here are counted. Never inlined: callgrind begins and ends with it.
extern "C" [[gnu::noinline]] void pairs(unsigned long count, Pair pair, std::size_t bytes,
                                        std::size_t alignment) {
  for (unsigned long i = 0; i < count; ++i) pair(bytes, alignment);
}

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) return 2;
  for (unsigned long kept = argc == 6 ? std::strtoul(argv[5], nullptr, 10) : 0; kept != 0; --kept)
    if (std::malloc(16) == nullptr) return 1;
  const unsigned long count = std::strtoul(argv[1], nullptr, 10);
  const std::size_t bytes = std::strtoul(argv[3], nullptr, 10);
  const std::size_t alignment = std::strtoul(argv[4], nullptr, 10);
  for (const auto& way : kWays) {
    if (std::strcmp(way.name, argv[2]) != 0) continue;
    // Now the bins exist, and no class is still at its first objects.
    for (std::size_t size = 16; size <= 2048; size += 16)
      for (int i = 0; i < 16; ++i) std::free(std::malloc(size));
    for (unsigned long i = 0; i < 64 + count; ++i) way.pair(bytes, alignment);
    pairs(count, way.pair, bytes, alignment);
    return 0;
  }
  return 2;
}
