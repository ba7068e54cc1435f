#include "base/move_words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/seeded_test.h"

namespace strata {
namespace {

using MoveWordsTest = SeededTest;

std::vector<void*> numbered(std::size_t count) {
  std::vector<void*> words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = reinterpret_cast<void*>(i + 1);
  return words;
}

TEST_F(MoveWordsTest, CopiesAnyNumberAndNoMore) {
  const std::vector<void*> from = numbered(2100);
  for (const std::size_t count :
       {0U, 1U, 7U, 255U, 256U, 257U, 258U, 263U, 264U, 265U, 1023U, 1024U, 2047U, 2100U}) {
    std::vector<void*> to(from.size() + 1, nullptr);
    move_words(to.data(), from.data(), count);
    for (std::size_t i = 0; i < to.size(); ++i)
      ASSERT_EQ(to[i], i < count ? from[i] : nullptr) << i << " of " << count;
  }
}

TEST_F(MoveWordsTest, CopiesToAnyPlaceOfAPage) {
  constexpr std::size_t kCount = 1000;
  const std::vector<void*> from = numbered(kCount);
  std::vector<void*> room(kCount + 520);
  for (std::size_t place = 0; place + kCount <= room.size(); ++place) {
    std::fill(room.begin(), room.end(), nullptr);
    move_words(room.data() + place, from.data(), kCount);
    ASSERT_TRUE(std::equal(from.begin(), from.end(), room.begin() + place)) << place;
    ASSERT_EQ(std::count(room.begin(), room.end(), nullptr), room.size() - kCount) << place;
  }
}

TEST_F(MoveWordsTest, MovesDownOverItself) {
  for (const std::size_t distance : {0U, 1U, 2U, 7U, 8U, 9U, 509U, 511U}) {
    for (const std::size_t count : {3U, 256U, 257U, 300U, 1031U}) {
      std::vector<void*> words = numbered(distance + count);
      std::vector<void*> expected = words;
      std::memmove(expected.data(), expected.data() + distance, count * sizeof(void*));
      move_words(words.data(), words.data() + distance, count);
      ASSERT_EQ(words, expected) << count << " words by " << distance;
    }
  }
}

TEST_F(MoveWordsTest, DoesWhatMemmoveDoes) {
  for (int round = 0; round < 2000; ++round) {
    std::vector<void*> words = numbered(4096);
    std::vector<void*> expected = words;
    const std::size_t to = below(2048);
    const std::size_t from = to + below(1024);
    const std::size_t count = below(words.size() - from);
    std::memmove(expected.data() + to, expected.data() + from, count * sizeof(void*));
    move_words(words.data() + to, words.data() + from, count);
    ASSERT_EQ(words, expected) << count << " words from " << from << " to " << to;
  }
}

}  // namespace
}  // namespace strata
