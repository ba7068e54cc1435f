#include <strata/heap.h>

#include <gtest/gtest.h>

// The functions of heap_in_c_test.c: each returns what did not hold, or nullptr.
extern "C" {
const char* use_a_heap_in_c(void);
const char* make_heaps_in_c(void);
const char* place_a_heap_in_c(void);
}

namespace {

TEST(HeapInC, DoesWhatItsHeaderSays) { EXPECT_STREQ(use_a_heap_in_c(), nullptr); }

TEST(HeapInC, IsMadeWithItsOptions) { EXPECT_STREQ(make_heaps_in_c(), nullptr); }

TEST(HeapInC, LiesWhereAPageSourceSays) { EXPECT_STREQ(place_a_heap_in_c(), nullptr); }

TEST(HeapInC, DiesOfAFreeThatIsNotItsOwn) {
  strata_heap* heap = strata_heap_create(nullptr, nullptr);
  void* p = strata_heap_malloc(heap, 4 << 20);
  strata_heap_free(heap, p);
  EXPECT_DEATH(strata_heap_free(heap, p), "invalid free of 0x.*: the block is free already");
  strata_heap_destroy(heap);
}

}  // namespace
