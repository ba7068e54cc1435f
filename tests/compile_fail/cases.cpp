// One program that compiles, and in each case one line that must not.
#include <strata/allocator.hpp>
#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_magazine.hpp>
#include <strata/block_allocator.hpp>
#include <strata/memory_resource.hpp>
#include <strata/object_pool.hpp>
#include <strata/page_arena.hpp>
#include <strata/size_class_allocator.hpp>

#include <utility>

struct Base {
  int a = 0;
};
struct Other {
  int b = 0;
};
struct Derived : Base, Other {};

void compiles(strata::PageArena& arena) {
  strata::BlockAllocator blocks(arena, 64, 100);
  strata::SizeClassAllocator sizes;
  strata::ObjectPool<Derived> pool(10);
  auto handle = pool.make();
  strata::MemoryResource<strata::PageArena> resource(arena);
  static strata::BitmapPool<> bits;
  strata::BitmapPoolMagazines<strata::BitmapPool<>> magazines(bits, 2);
  strata::BitmapPoolMagazines<strata::BitmapPool<>>::Magazine magazine(magazines);

#if defined(CASE_COPY_ARENA)
  strata::PageArena copy(arena);
#elif defined(CASE_ASSIGN_ARENA)
  arena = arena;
#elif defined(CASE_COPY_BLOCKS)
  strata::BlockAllocator copy(blocks);
#elif defined(CASE_ASSIGN_BLOCKS)
  blocks = blocks;
#elif defined(CASE_COPY_SIZES)
  strata::SizeClassAllocator copy(sizes);
#elif defined(CASE_ASSIGN_SIZES)
  sizes = sizes;
#elif defined(CASE_COPY_POOL)
  strata::ObjectPool<Derived> copy(pool);
#elif defined(CASE_ASSIGN_POOL)
  pool = pool;
#elif defined(CASE_COPY_HANDLE)
  auto copy = handle;
#elif defined(CASE_ASSIGN_HANDLE)
  handle = handle;
#elif defined(CASE_COPY_RESOURCE)
  strata::MemoryResource<strata::PageArena> copy(resource);
#elif defined(CASE_ASSIGN_RESOURCE)
  resource = resource;
#elif defined(CASE_COPY_BITS)
  strata::BitmapPool<> copy(bits);
#elif defined(CASE_ASSIGN_BITS)
  bits = bits;
#elif defined(CASE_COPY_MAGAZINE)
  strata::BitmapPoolMagazines<strata::BitmapPool<>>::Magazine copy(magazine);
#elif defined(CASE_ASSIGN_MAGAZINE)
  magazine = magazine;
#elif defined(CASE_BITS_OF_NO_BYTES)
  strata::BitmapPool<0, 64> nothing;
#elif defined(CASE_BITS_OF_NO_BLOCKS)
  strata::BitmapPool<64, 0> nothing;
#elif defined(CASE_BITS_OF_ODD_ALIGNMENT)
  strata::BitmapPool<64, 64, 24> odd;
#elif defined(CASE_BITS_BEYOND_MEMORY)
  static strata::BitmapPool<64, ~std::size_t{0} / 64> all;
#elif defined(CASE_UNIQUE_ARRAY_OF_KNOWN_SIZE)
  auto four = strata::make_unique_from<int[4]>(sizes);
#elif defined(CASE_SIZE_FOR_CLASSES)
  strata::SizeClassAllocator one_class_of_65536_bytes{1 << 16};
#elif defined(CASE_POOL_OF_ARRAYS)
  strata::ObjectPool<int[4]> arrays(10);
#elif defined(CASE_POOL_OF_CONST)
  strata::ObjectPool<const int> constants(10);
#elif defined(CASE_DESTROY_ANOTHER_TYPE)
  Base base;
  pool.destroy(&base);
#elif defined(CASE_ALLOCATOR_WITHOUT_SOURCE)
  strata::Allocator<int, strata::SizeClassAllocator> allocator;
#elif defined(CASE_MALLOC_WITH_UPSTREAM)
  strata::Malloc malloc;
  strata::MemoryResource<> over_malloc(malloc, std::pmr::new_delete_resource());
#elif defined(CASE_HANDLE_TO_BASE)
  std::unique_ptr<Other, strata::Deleter<Other, strata::SizeClassAllocator>> base =
      strata::make_unique_from<Derived>(sizes);
#endif
}
