#include <strata/heap.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

// The functions of heap_in_c_test.c: each returns what did not hold, or nullptr.
extern "C" {
const char* use_a_heap_in_c(void);
const char* make_heaps_in_c(void);
const char* place_a_heap_in_c(void);
const char* profile_heaps_in_c(const char* path);
}

namespace {

TEST(HeapInC, DoesWhatItsHeaderSays) { EXPECT_STREQ(use_a_heap_in_c(), nullptr); }

TEST(HeapInC, IsMadeWithItsOptions) { EXPECT_STREQ(make_heaps_in_c(), nullptr); }

TEST(HeapInC, LiesWhereAPageSourceSays) { EXPECT_STREQ(place_a_heap_in_c(), nullptr); }

TEST(HeapInC, HasAProfileThatItWritesOrSaysWhyNot) {
  const std::string path = ::testing::TempDir() + "heap_in_c.pb.gz";
  testing::internal::CaptureStderr();
  EXPECT_STREQ(profile_heaps_in_c(path.c_str()), nullptr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "strata: warning: the profile /nowhere/at/all is not written: "
            "No such file or directory\n"
            "strata: warning: the profile '' is not written: No such file or directory\n");
  EXPECT_TRUE(std::filesystem::remove(path));
}

TEST(HeapInC, DiesOfAFreeThatIsNotItsOwn) {
  strata_heap* heap = strata_heap_create(nullptr, nullptr);
  void* p = strata_heap_malloc(heap, 4 << 20);
  strata_heap_free(heap, p);
  EXPECT_DEATH(strata_heap_free(heap, p), "double free of 0x.*: the block is free already");
  strata_heap_destroy(heap);
}

}  // namespace
