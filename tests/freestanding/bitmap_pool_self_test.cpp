#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_magazine.hpp>
#include <strata/bitmap_pool_view.hpp>

#include "self_test.h"

#if __STDC_HOSTED__
#error "this file shows that a hosted library is not needed: build it with -ffreestanding"
#endif
#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this file shows that exceptions and RTTI are not needed: build it without"
#endif

#define CHECK(condition)               \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (false)

namespace {

/// Shared between the self-test and the interrupt.
strata::BitmapPool<16, 200> shared;
std::uint32_t owner[200];  // of each block; whoever holds it may write here

int churn(strata::BitmapPoolCursor& cursor, std::uint32_t id, unsigned rounds) {
  void* held[5] = {};
  for (unsigned i = 0; i < rounds; ++i) {
    void*& slot = held[i * 7 % 5];
    if (slot == nullptr) {
      slot = shared.allocate(cursor);
      CHECK(slot != nullptr);
      CHECK(owner[shared.index_of(slot)] == 0);
      owner[shared.index_of(slot)] = id;
    } else {
      CHECK(owner[shared.index_of(slot)] == id);
      owner[shared.index_of(slot)] = 0;
      CHECK(shared.deallocate(slot, cursor));
      slot = nullptr;
    }
  }
  for (void* p : held) {
    if (p == nullptr) continue;
    owner[shared.index_of(p)] = 0;
    CHECK(shared.deallocate(p, cursor));
  }
  return 0;
}

template <class Pool>
int fill_and_empty(Pool& pool) {
  CHECK(pool.in_use() == 0);
  for (std::size_t i = 0; i < pool.capacity(); ++i) {
    void* p = pool.allocate();
    CHECK(p != nullptr && pool.owns(p));
    CHECK(reinterpret_cast<std::uintptr_t>(p) % pool.block_alignment() == 0);
  }
  CHECK(pool.allocate() == nullptr);
  CHECK(pool.in_use() == pool.capacity());
  CHECK(pool.broken_invariant() == nullptr);
  for (std::size_t i = 0; i < pool.capacity(); ++i) {
    CHECK(!pool.deallocate(static_cast<char*>(pool.block(i)) + 1));
    CHECK(pool.deallocate(pool.block(i)));
    CHECK(!pool.deallocate(pool.block(i)));
  }
  CHECK(pool.in_use() == 0);
  CHECK(pool.broken_invariant() == nullptr);
  return 0;
}

strata::BitmapPool<> small;
strata::BitmapPool<8, 700> large;
alignas(64) unsigned char buffer[16384];

}  // namespace

extern "C" int strata_self_test() {
  if (const int line = strata_block_self_test()) return line;
  if (const int line = fill_and_empty(small)) return line;
  if (const int line = fill_and_empty(large)) return line;

  const strata::BitmapPoolShape shape{24, 300};
  CHECK(strata::BitmapPoolView<>::required_bytes(shape) <= sizeof(buffer));
  auto view = strata::BitmapPoolView<>::try_create(buffer, sizeof(buffer), shape);
  CHECK(view);
  if (const int line = fill_and_empty(view)) return line;
  CHECK(strata::BitmapPoolView<>::try_attach(buffer, sizeof(buffer)));

  strata::BitmapPoolMagazines<strata::BitmapPool<>> magazines(small, 2);
  {
    strata::BitmapPoolMagazines<strata::BitmapPool<>>::Magazine mine(magazines);
    for (int i = 0; i < 100; ++i) CHECK(mine.deallocate(mine.allocate()));
  }
  CHECK(small.in_use() == 0);

  void* batch[200];
  CHECK(small.allocate_batch(batch, 200) == 64);
  CHECK(small.deallocate_batch(batch, 64) == 64);

  auto cursor = shared.nth_cursor(0);
  return churn(cursor, 1, 200000);
}

extern "C" int strata_self_test_interrupt() {
  static strata::BitmapPoolCursor cursor;  // on purpose where the interrupted one works: at word 0
  return churn(cursor, 2, 7);
}
