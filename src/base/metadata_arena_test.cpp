#include "base/metadata_arena.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/access_test.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

using os::FakePageSource;

constexpr std::size_t kChunk = MetadataArena::kChunkBytes;
constexpr std::size_t kLargest = std::size_t{2} << 30;

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

bool is_zero(const void* memory, std::size_t bytes) {
  const char* at = static_cast<const char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (at[i] != 0) return false;
  }
  return true;
}

TEST(MetadataArena, MapsNothingBeforeTheFirstRequest) {
  FakePageSource pages;
  MetadataArena arena(pages);
  EXPECT_EQ(arena.mapped_bytes(), 0u);
  EXPECT_EQ(pages.fallible_calls(), 0u);
}

TEST(MetadataArena, FreshMemoryIsZeroAndAlignedToACacheLine) {
  FakePageSource pages;
  MetadataArena arena(pages);
  for (std::size_t bytes : {1, 8, 64, 65, 100, 4096, 5000, 262144, 262145}) {
    void* p = arena.allocate(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(number(p) % 64, 0u);
    EXPECT_TRUE(is_zero(p, bytes));
    EXPECT_TRUE(pages.is_mapped(p, bytes));
  }
  EXPECT_EQ(arena.mapped_bytes(), pages.mapped_bytes());
}

TEST(MetadataArena, NothingElseLiesNextToAChunkThatIsKeptForEver) {
  FakePageSource pages;
  MetadataArena arena(pages);
  for (int i = 0; i < 20; ++i) {
    char* const p = static_cast<char*>(arena.allocate(kChunk));
    ASSERT_NE(p, nullptr);
    ASSERT_NE(pages.map(kChunk), nullptr) << "which the kernel likes to put next to it";
    EXPECT_TRUE(os::lies_apart(p, kChunk, "rw-p"));
  }
  char* const small = static_cast<char*>(arena.allocate(64));
  EXPECT_TRUE(os::lies_apart(small, kChunk, "rw-p")) << "the first of its chunk";
}

TEST(MetadataArena, ChunksGrowWithWhatIsMapped) {
  FakePageSource pages;
  MetadataArena arena(pages);
  for (int i = 0; i < 16; ++i) ASSERT_NE(arena.allocate(4 * kChunk), nullptr);
  ASSERT_NE(arena.allocate(64), nullptr);
  EXPECT_EQ(arena.mapped_bytes(), 64 * kChunk + 4 * kChunk);
}

TEST(MetadataArena, WhereALongChunkIsRefusedAShortOneServes) {
  FakePageSource pages;
  MetadataArena arena(pages);
  for (int i = 0; i < 16; ++i) ASSERT_NE(arena.allocate(4 * kChunk), nullptr);
  pages.limit_mapped_bytes(pages.mapped_bytes() + kChunk);
  EXPECT_NE(arena.allocate(64), nullptr);
  EXPECT_NE(arena.allocate_forever(64), nullptr);
  EXPECT_EQ(arena.mapped_bytes(), 64 * kChunk + kChunk);
}

TEST(MetadataArena, TwoOwnersNeverShareACacheLine) {
  FakePageSource pages;
  MetadataArena arena(pages);
  const std::uintptr_t a = number(arena.allocate(1));
  const std::uintptr_t b = number(arena.allocate(1));
  EXPECT_NE(a / 64, b / 64);
}

TEST(MetadataArena, ManySmallRequestsShareAChunk) {
  FakePageSource pages;
  MetadataArena arena(pages);
  for (std::size_t i = 0; i < kChunk / 64; ++i) ASSERT_NE(arena.allocate(64), nullptr);
  EXPECT_EQ(pages.calls(FakePageSource::kMap), 1u);
  ASSERT_NE(arena.allocate(64), nullptr);
  EXPECT_EQ(pages.calls(FakePageSource::kMap), 2u);
  EXPECT_EQ(arena.mapped_bytes(), 2 * kChunk);
}

TEST(MetadataArena, AChunkOfItsOwnLeavesTheFreshRestInUse) {
  FakePageSource pages;
  MetadataArena arena(pages);
  ASSERT_NE(arena.allocate(64), nullptr);
  ASSERT_NE(arena.allocate(4 * kChunk), nullptr);
  ASSERT_NE(arena.allocate(64), nullptr);
  EXPECT_EQ(pages.calls(FakePageSource::kMap), 2u);
}

TEST(MetadataArena, RecyclesMemoryAmongRequestsThatRoundToTheSameSize) {
  FakePageSource pages;
  MetadataArena arena(pages);
  void* p = arena.allocate(65);
  arena.deallocate(p, 65);
  EXPECT_NE(arena.allocate(64), p);
  EXPECT_NE(arena.allocate(129), p);
  EXPECT_EQ(arena.allocate(128), p);
}

TEST(MetadataArena, ALargeBlockThatComesBackIsDecommittedButForItsLink) {
  FakePageSource pages;
  MetadataArena arena(pages);
  constexpr std::size_t kBytes = 4 * MetadataArena::kLargeBytes;
  void* const first = arena.allocate(kBytes);
  void* const second = arena.allocate(kBytes);
  std::memset(first, 1, kBytes);
  std::memset(second, 1, kBytes);
  arena.deallocate(first, kBytes);
  EXPECT_GE(pages.decommitted_bytes(), kBytes - 2 * os::page_bytes());
  pages.refuse_from_call(1);
  arena.deallocate(second, kBytes);
  pages.refuse_nothing();
  EXPECT_EQ(arena.allocate(kBytes), second) << "it is lost";
  EXPECT_EQ(arena.allocate(kBytes), first);
}

TEST(MetadataArena, RefusesWhatIsLargerThanItsLargestSize) {
  FakePageSource pages;
  MetadataArena arena(pages);
  EXPECT_NE(arena.allocate(kLargest), nullptr);
  const std::size_t calls = pages.fallible_calls();
  EXPECT_EQ(arena.allocate(kLargest + 1), nullptr);
  EXPECT_EQ(arena.allocate(~std::size_t{0}), nullptr);
  EXPECT_EQ(pages.fallible_calls(), calls);
}

TEST(MetadataArena, AnswersARefusalWithNullAndWorksAgainAfterIt) {
  const auto run = [](FakePageSource& pages) {
    MetadataArena arena(pages);
    std::set<void*> given;
    for (int i = 0; i < 40; ++i) {
      void* p = arena.allocate(40'000);
      if (p == nullptr) p = arena.allocate(40'000);  // only the n-th call is refused
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(given.insert(p).second);
      std::memset(p, i, 40'000);
      EXPECT_EQ(arena.mapped_bytes(), pages.mapped_bytes());
    }
  };
  std::size_t n = 1;
  for (;; ++n) {
    FakePageSource pages;
    pages.refuse_call(n);
    run(pages);
    if (HasFatalFailure() || pages.refused_calls() == 0) break;
  }
  EXPECT_EQ(n, 11u);  // 40 blocks of 64 KiB are ten chunks
}

TEST(MetadataArena, DiscardUnmapsEveryChunkOfAnySizeAndItCanBeUsedAgain) {
  FakePageSource pages;
  MetadataArena arena(pages, nullptr, MetadataArena::Life::kUntilDiscarded);
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{5000}, kChunk, 3 * kChunk}) {
      for (int i = 0; i < 30; ++i) {
        void* p = arena.allocate(bytes);
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(number(p) % 64, 0u);
        std::memset(p, 0xff, bytes);
        if (i % 3 == 2) arena.deallocate(p, bytes);
      }
    }
    EXPECT_EQ(arena.mapped_bytes(), pages.mapped_bytes());
    arena.discard();
    EXPECT_EQ(arena.mapped_bytes(), 0u);
    EXPECT_EQ(pages.mapped_bytes(), 0u);
  }
}

TEST(MetadataArena, ARefusedChunkIsNotHeld) {
  FakePageSource pages;
  MemoryLimit limit;
  MetadataArena arena(pages, &limit);
  pages.refuse_from_call(1);
  EXPECT_EQ(arena.allocate(64), nullptr);
  EXPECT_EQ(limit.held_bytes(), 0u);
}

TEST(MetadataArena, ARefusedChunkLeavesTheFreshRestInUse) {
  FakePageSource pages;
  MetadataArena arena(pages);
  void* first = arena.allocate(64);
  pages.refuse_from_call(1);
  EXPECT_EQ(arena.allocate(kChunk), nullptr);
  EXPECT_EQ(number(arena.allocate(64)), number(first) + 64);
}

TEST(MetadataArena, SplitsALargerBlockWhenTheKernelGivesNoMore) {
  FakePageSource pages;
  MetadataArena arena(pages);
  void* large = arena.allocate(kChunk);
  arena.deallocate(large, kChunk);
  pages.refuse_from_call(1);
  std::set<std::uintptr_t> starts;
  for (std::size_t i = 0; i < kChunk / 4096; ++i) {
    void* p = arena.allocate(4096);
    ASSERT_NE(p, nullptr) << i;
    EXPECT_EQ((number(p) - number(large)) % 4096, 0u);
    EXPECT_LT(number(p) - number(large), kChunk);
    EXPECT_TRUE(starts.insert(number(p)).second) << "handed out twice";
  }
  EXPECT_EQ(arena.allocate(4096), nullptr);
  arena.deallocate(large, 4096);
  EXPECT_NE(arena.allocate(64), nullptr) << "a part can be split again";
}

TEST(MetadataArena, JoinsNeighboursWhenTheKernelGivesNoMore) {
  FakePageSource pages;
  MetadataArena arena(pages);
  std::vector<void*> small;
  for (std::size_t i = 0; i < kChunk / 64; ++i) small.push_back(arena.allocate(64));
  const std::uintptr_t start = number(small[0]);
  pages.refuse_from_call(1);
  for (std::size_t i = 0; i < small.size(); i += 2) arena.deallocate(small[i], 64);
  EXPECT_EQ(arena.allocate(128), nullptr) << "those between are in use";
  for (std::size_t i = 1; i < small.size(); i += 2) arena.deallocate(small[i], 64);
  std::set<std::uintptr_t> starts;
  for (std::size_t i = 0; i < kChunk / 4096; ++i) {
    void* p = arena.allocate(4096);
    ASSERT_NE(p, nullptr) << i;
    EXPECT_EQ((number(p) - start) % 4096, 0u);
    EXPECT_LT(number(p) - start, kChunk);
    EXPECT_TRUE(starts.insert(number(p)).second) << "handed out twice";
  }
  EXPECT_EQ(arena.allocate(64), nullptr);
}

TEST(MetadataArena, DoesNotSortItsBlocksAgainForEachThatComesBack) {
  FakePageSource pages;
  MetadataArena arena(pages);
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < kChunk / 64; ++i) blocks.push_back(arena.allocate(64));
  pages.refuse_from_call(1);
  for (std::size_t i = 0; i < blocks.size(); i += 2) arena.deallocate(blocks[i], 64);
  EXPECT_EQ(arena.allocate(128), nullptr);
  arena.deallocate(blocks[1], 64);
  EXPECT_EQ(arena.allocate(128), nullptr) << "a neighbour of two, found when more are free";
  for (std::size_t i = 3; i < 99; i += 2) arena.deallocate(blocks[i], 64);
  EXPECT_NE(arena.allocate(128), nullptr);
}

TEST(MetadataArena, ServesManyThreadsAtOnce) {
  constexpr int kRounds = 2'000;
  FakePageSource pages;
  MetadataArena arena(pages);
  const auto come_and_go = [&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const std::size_t bytes = 64u << (i % 4);
      void* p = arena.allocate(bytes);
      ASSERT_NE(p, nullptr);
      std::memset(p, t, bytes);
      for (std::size_t k = 0; k < bytes; ++k) ASSERT_EQ(static_cast<char*>(p)[k], t);
      arena.deallocate(p, bytes);
    }
  };
  run_together(8, come_and_go, [&] { ASSERT_LE(arena.mapped_bytes(), kChunk); });
  EXPECT_EQ(arena.mapped_bytes(), kChunk);
}

class MetadataArenaRandom : public SeededTest {};

TEST_F(MetadataArenaRandom, NeverGivesTheSameByteTwice) {
  struct Live {
    std::size_t bytes;
    unsigned char pattern;
  };
  FakePageSource pages;
  MetadataArena arena(pages);
  std::map<std::uintptr_t, Live> live;
  for (int step = 0; step < 20'000; ++step) {
    if (step % 4000 == 2000) pages.limit_mapped_bytes(pages.mapped_bytes());
    if (step % 4000 == 0) pages.limit_mapped_bytes(~std::size_t{0});
    if (live.empty() || below(100) < 55) {
      const std::size_t bytes = 1 + below(std::size_t{1} << below(18));
      if (below(50) == 0) pages.refuse_call(1);
      void* p = arena.allocate(bytes);
      pages.refuse_nothing();
      if (p == nullptr) continue;
      ASSERT_EQ(number(p) % 64, 0u);
      ASSERT_TRUE(pages.is_mapped(p, bytes));
      const auto above = live.lower_bound(number(p));
      ASSERT_TRUE(above == live.end() || number(p) + bytes <= above->first);
      ASSERT_TRUE(above == live.begin() ||
                  std::prev(above)->first + std::prev(above)->second.bytes <= number(p));
      const auto pattern = static_cast<unsigned char>(below(256));
      std::memset(p, pattern, bytes);
      live.emplace(number(p), Live{bytes, pattern});
    } else {
      auto victim = std::next(live.begin(), static_cast<std::ptrdiff_t>(below(live.size())));
      auto* p = reinterpret_cast<unsigned char*>(victim->first);
      for (std::size_t i = 0; i < victim->second.bytes; ++i) {
        ASSERT_EQ(p[i], victim->second.pattern) << "byte " << i << " of " << victim->second.bytes;
      }
      arena.deallocate(p, victim->second.bytes);
      live.erase(victim);
    }
    ASSERT_EQ(arena.mapped_bytes(), pages.mapped_bytes());
  }
}

#ifndef NDEBUG
TEST(MetadataArenaDeathTest, DiesOnGivingBackNothing) {
  FakePageSource pages;
  MetadataArena arena(pages);
  EXPECT_DEATH(arena.deallocate(nullptr, 64), "internal error, please report: memory != nullptr");
}
#endif

}  // namespace
}  // namespace strata
