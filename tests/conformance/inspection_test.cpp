// What the malloc tells a program about its memory.

#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/memory.h"

namespace {

std::string text_of_malloc_info() {
  char* text = nullptr;
  std::size_t size = 0;
  FILE* stream = open_memstream(&text, &size);
  EXPECT_EQ(malloc_info(0, stream), 0);
  fclose(stream);
  std::string result(text, size);
  free(text);
  return result;
}

std::size_t number_in(const std::string& text, const std::string& before) {
  const std::size_t at = text.rfind(before);
  EXPECT_NE(at, std::string::npos) << before << " in\n" << text;
  return at == std::string::npos ? 0
                                 : std::strtoull(text.c_str() + at + before.size(), nullptr, 10);
}

/// \returns  how many objects of this type the whole document counts
std::size_t totals_of(const std::string& text, const std::string& type, std::size_t& bytes) {
  const std::string before = "<total type=\"" + type + "\" count=\"";
  const std::size_t count = number_in(text, before);
  bytes = number_in(text, before + std::to_string(count) + "\" size=\"");
  return count;
}

TEST(UsableSize, OfNullIsZero) { EXPECT_EQ(malloc_usable_size(nullptr), 0u); }

TEST(UsableSize, IsStableWhileTheBlockLives) {
  for (const std::size_t n : {1, 100, 5000, 200'000, 5'000'000}) {
    void* p = malloc(n);
    const std::size_t usable = malloc_usable_size(p);
    std::memset(p, 0xff, usable);
    EXPECT_EQ(malloc_usable_size(p), usable);
    free(p);
  }
}

TEST(MallocTrim, ReturnsIdleMemoryAndSaysSo) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100'000; ++i) blocks.push_back(std::memset(malloc(1000), 1, 1000));
  const std::size_t with_blocks = resident_bytes();
  for (void* p : blocks) free(p);
  EXPECT_EQ(malloc_trim(0), 1);
  EXPECT_LT(resident_bytes(), with_blocks - 80 * kMiB);
  EXPECT_EQ(malloc_trim(0), 0);
}

TEST(MallocTrim, ReturnsThePagesOfSpansThatEmptiedInOtherThreadsOrder) {
  std::vector<void*> blocks;
  for (int i = 0; i < 20'000; ++i) blocks.push_back(std::memset(malloc(5000), 1, 5000));
  const std::size_t with_blocks = resident_bytes();
  for (std::size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  for (std::size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
  malloc_trim(0);
  EXPECT_LT(resident_bytes(), with_blocks - 80 * kMiB);
}

// The heap is so large that its regions have huge pages.
TEST(MallocTrim, ComesToAnEndWhenARegionGoesBackPieceByPiece) {
  std::vector<void*> blocks;
  for (int i = 0; i < 400; ++i) blocks.push_back(std::memset(malloc(300'000), 1, 300'000));
  const std::size_t with_blocks = resident_bytes();
  for (std::size_t part = 0; part < 3; ++part) {
    for (std::size_t i = part; i < blocks.size(); i += 3) free(blocks[i]);
    EXPECT_EQ(malloc_trim(0), 1);
  }
  EXPECT_LT(resident_bytes(), with_blocks - 100 * kMiB);
}

TEST(Mallinfo2, CountsWhatIsLiveAndWhatIsFree) {
  const struct mallinfo2 before = mallinfo2();
  std::vector<void*> blocks;
  for (int i = 0; i < 10'000; ++i) blocks.push_back(malloc(1000));
  for (int i = 0; i < 10; ++i) blocks.push_back(malloc(5 * kMiB));
  const struct mallinfo2 during = mallinfo2();
  const std::size_t added = during.uordblks + during.hblkhd - before.uordblks - before.hblkhd;
  EXPECT_GE(added, 10'000 * 1000 + 50 * kMiB);
  EXPECT_LT(added, 10'000 * 1100 + 52 * kMiB);
  EXPECT_EQ(during.hblks, before.hblks + 10);
  EXPECT_GE(during.hblkhd, 50 * kMiB);
  EXPECT_LT(during.uordblks, before.uordblks + 10'000 * 1100 + kMiB) << "huge blocks stand apart";
  EXPECT_EQ(during.arena, during.uordblks + during.fordblks);
  EXPECT_GE(during.arena, 10'000u * 1000);
  EXPECT_LT(during.arena, before.arena + 20 * kMiB);
  for (void* p : blocks) free(p);
  const struct mallinfo2 after = mallinfo2();
  EXPECT_LT(after.uordblks, before.uordblks + kMiB);
  EXPECT_EQ(after.hblks, before.hblks);
  EXPECT_GE(after.fordblks, after.keepcost);
}

TEST(Mallinfo2, CountsWhatCachesAndFreedBlocksHold) {
  std::vector<void*> blocks;
  for (int i = 0; i < 10'000; ++i) blocks.push_back(malloc(1000));
  void* const huge = malloc(50 * kMiB);
  const struct mallinfo2 during = mallinfo2();
  for (void* p : blocks) free(p);
  free(huge);
  const struct mallinfo2 after = mallinfo2();
  EXPECT_GE(after.ordblks, during.ordblks + 10'000);
  EXPECT_EQ(after.hblkhd, during.hblkhd - 50 * kMiB);
  EXPECT_GE(after.usmblks, 60 * kMiB);
  const std::string text = text_of_malloc_info();
  std::size_t cached = 0;
  std::size_t rest = 0;
  totals_of(text, "fast", cached);
  totals_of(text, "rest", rest);
  EXPECT_GE(rest, 10'000u * 1000);
  EXPECT_NEAR(static_cast<double>(after.fsmblks), static_cast<double>(cached), 65'536);
  EXPECT_NEAR(static_cast<double>(after.keepcost), static_cast<double>(cached + rest), 65'536);
  EXPECT_GT(number_in(text, "<aspace type=\"total\" size=\""), after.arena + after.hblkhd)
      << "bookkeeping is no part of it";
  malloc_trim(0);
  const struct mallinfo2 trimmed = mallinfo2();
  EXPECT_LT(trimmed.keepcost, kMiB);
  EXPECT_GE(trimmed.usmblks, after.usmblks) << "the most that was held";
  const std::string then = text_of_malloc_info();
  EXPECT_LT(number_in(then, "<system type=\"current\" size=\"") + 50 * kMiB,
            number_in(then, "<system type=\"max\" size=\""));
}

TEST(Mallinfo, IsMallinfo2InInts) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(malloc(1000));
  const struct mallinfo2 wide = mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
  EXPECT_EQ(static_cast<std::size_t>(narrow.uordblks), wide.uordblks);
  // Counts addresses that earlier tests have left without memory.
  EXPECT_EQ(static_cast<std::size_t>(narrow.arena), std::min<std::size_t>(wide.arena, INT_MAX));
  EXPECT_GE(narrow.uordblks, 1'000'000);
  for (void* p : blocks) free(p);
}

TEST(Mallinfo, FiguresBeyondAnIntAreTheLargestInt) {
  void* const block = malloc(std::size_t{3} << 30);
  if (block == nullptr) GTEST_SKIP() << "the system does not give 3 GiB of addresses";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_EQ(mallinfo().hblkhd, INT_MAX);
#pragma GCC diagnostic pop
  EXPECT_GE(mallinfo2().hblkhd, std::size_t{3} << 30);
  free(block);
}

/// What the function writes to standard error.
template <typename Function>
std::string text_on_standard_error(Function function) {
  FILE* const file = tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  function();
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text(static_cast<std::size_t>(lseek(fileno(file), 0, SEEK_END)), ' ');
  EXPECT_EQ(pread(fileno(file), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  fclose(file);
  return text;
}

TEST(MallocStats, AreWrittenByAThreadThatIsToBeCancelled) {
  const std::string usual = text_on_standard_error(malloc_stats);
  ASSERT_GT(usual.size(), 100u);
  bool is_complete = false;
  const std::string text = text_on_standard_error([&] {
    std::thread([&] {
      pthread_cancel(pthread_self());
      malloc_stats();
      is_complete = true;
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    }).join();
  });
  EXPECT_TRUE(is_complete) << "malloc_stats ended its thread";
  EXPECT_EQ(text.substr(0, text.find('\n')), usual.substr(0, usual.find('\n')));
}

TEST(MallocInfo, IsTheDocumentThatGlibcWrites) {
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(malloc(5 * kMiB));
  for (int i = 0; i < 1000; ++i) free(malloc(3000));
  const std::string text = text_of_malloc_info();
  EXPECT_EQ(text.rfind("<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n", 0), 0u);
  EXPECT_EQ(text.substr(text.size() - 10), "</malloc>\n");
  EXPECT_NE(text.find("\" to=\"3072\" total=\""), std::string::npos) << text;
  EXPECT_EQ(number_in(text, "<total type=\"mmap\" count=\""), mallinfo2().hblks);
  EXPECT_GE(number_in(text, "<system type=\"current\" size=\""), 15 * kMiB);
  EXPECT_GE(number_in(text, "<system type=\"max\" size=\""),
            number_in(text, "<system type=\"current\" size=\""));
  for (void* p : blocks) free(p);
}

TEST(MallocInfo, CountsWhatIsFreeBySize) {
  std::vector<void*> blocks;
  for (int i = 0; i < 5000; ++i) blocks.push_back(malloc(3000));
  for (std::size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  const std::string text = text_of_malloc_info();
  std::size_t count = 0;
  std::size_t total = 0;
  std::size_t before = 0;
  bool has_seen_them = false;
  constexpr std::string_view kSize = "  <size from=\"";
  for (std::size_t at = 0; (at = text.find(kSize, at)) != std::string::npos; at += kSize.size()) {
    std::size_t from, to, bytes, objects;
    ASSERT_EQ(std::sscanf(text.c_str() + at,
                          "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>", &from,
                          &to, &bytes, &objects),
              4);
    EXPECT_GT(from, before);
    EXPECT_LE(from, to);
    EXPECT_GT(objects, 0u);
    EXPECT_EQ(bytes, to * objects);
    if (to == 3072) {
      has_seen_them = true;
      EXPECT_GE(objects, 2500u);
      EXPECT_GT(from, 2048u);
    }
    before = to;
    count += objects;
    total += bytes;
  }
  EXPECT_TRUE(has_seen_them);
  std::size_t cached_bytes = 0;
  std::size_t rest_bytes = 0;
  const std::size_t cached = totals_of(text, "fast", cached_bytes);
  EXPECT_EQ(cached + totals_of(text, "rest", rest_bytes), count);
  EXPECT_GE(cached_bytes, 16 * cached);
  EXPECT_LE(cached_bytes, total);
  EXPECT_EQ(text.find("\"mmap\""), text.rfind("\"mmap\"")) << "it is in the sum alone";
  for (std::size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
}

TEST(MallocInfo, SaysWhereItCannotWrite) {
  FILE* const full = fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  setvbuf(full, nullptr, _IONBF, 0);
  EXPECT_EQ(malloc_info(0, full), -1);
  fclose(full);
}

TEST(MallocInfo, RefusesOptionsThatDoNotExist) { EXPECT_EQ(malloc_info(1, stderr), EINVAL); }

TEST(MallocStats, SpeaksOnStandardError) {
  ::testing::internal::CaptureStderr();
  malloc_stats();
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("strata: live"), std::string::npos);
}

TEST(Mallopt, AcceptsWhatGlibcsUsersSet) {
  for (const int parameter : {M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
                              M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX, M_MXFAST}) {
    EXPECT_EQ(mallopt(parameter, 1), 1);
  }
  void* p = malloc(100);
  EXPECT_NE(p, nullptr);
  free(p);
}

}  // namespace
