#include <gtest/gtest.h>

#include <strata/thread_heaps.hpp>
TEST(ThreadHeaps, X) {
  strata::ThreadHeaps h;
  void* p = h.allocate(100);
  ASSERT_NE(p, nullptr);
  h.deallocate(p);
}
