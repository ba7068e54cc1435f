#include "profile/site_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/fake_page_source.h"
#include "profile/sampling.h"

namespace strata {
namespace {

struct Fixture {
  os::FakePageSource pages;
  MetadataArena metadata{pages};
  std::unique_ptr<SiteTable> table = std::make_unique<SiteTable>(metadata);

  std::uint32_t intern(const std::vector<std::uintptr_t>& frames, std::size_t rate = 1) {
    return table->intern(frames.data(), frames.size(), rate);
  }
};
struct SiteTableTest : ::testing::Test, Fixture {};

TEST_F(SiteTableTest, AStackHasOneNumberPerRate) {
  const std::uint32_t a = intern({1, 2, 3});
  EXPECT_EQ(a, 1u);
  EXPECT_EQ(intern({1, 2, 3}), a);
  EXPECT_NE(intern({1, 2}), a);
  EXPECT_NE(intern({1, 2, 4}), a);
  EXPECT_NE(intern({1, 2, 3}, 2), a);
  const std::uint32_t none = intern({});
  EXPECT_EQ(table->site(none).depth, 0u);
  EXPECT_EQ(table->count(), 5u);
  table->check_invariants();
}

TEST_F(SiteTableTest, AStackDeeperThanTheMostIsCut) {
  std::vector<std::uintptr_t> frames(SiteTable::kMaxDepth + 10, 7);
  const std::uint32_t id = intern(frames);
  EXPECT_EQ(table->site(id).depth, SiteTable::kMaxDepth);
  frames.resize(SiteTable::kMaxDepth);
  EXPECT_EQ(intern(frames), id);
}

TEST_F(SiteTableTest, WhatIsFreedIsTakenOffWhatIsLive) {
  Site& site = table->site(intern({5}));
  site.add(112, 100);
  site.add(112, 99);
  site.remove(112, 100);
  const Site::Sums now = site.sums();
  EXPECT_EQ(now.allocated_objects, 2u);
  EXPECT_EQ(now.allocated_bytes, 199u);
  EXPECT_EQ(now.live_objects, 1u);
  EXPECT_EQ(now.live_bytes, 99u);
  // At another rate the sums also balance to the last bit, since the weight is the same both times.
  Site& sampled = table->site(intern({5}, 512 << 10));
  for (std::size_t bytes = 0; bytes < 3000; ++bytes) sampled.add(bytes + 1, bytes);
  EXPECT_GT(sampled.sums().live_objects, 3000u);
  for (std::size_t bytes = 0; bytes < 3000; ++bytes) sampled.remove(bytes + 1, bytes);
  EXPECT_EQ(sampled.sums().live_objects, 0u);
  EXPECT_EQ(sampled.sums().live_bytes, 0u);
}

TEST_F(SiteTableTest, WhatIsLiveIsRightWhereASumHasGoneRound) {
  Site& site = table->site(intern({5}));
  const std::size_t huge = std::size_t{1} << 52;  // four of them, in 1/Sampling::kOne, are 2^64
  for (int i = 0; i < 4; ++i) {
    site.add(huge, huge);
    if (i != 3) site.remove(huge, huge);
  }
  site.add(112, 100);
  EXPECT_EQ(site.sums().live_bytes, huge + 100);
}

TEST_F(SiteTableTest, WithoutMemoryAStackIsThatOfAnUnknownCaller) {
  const std::uint32_t known = intern({1});
  EXPECT_TRUE(table->tells_all_apart());
  pages.limit_mapped_bytes(pages.mapped_bytes());
  std::uintptr_t frame = 2;
  std::uint32_t id;
  while (id = intern({frame}), id != 0 && table->site(id).depth != 0) ++frame;
  EXPECT_FALSE(table->tells_all_apart());
  EXPECT_EQ(id, intern({frame + 1}));
  EXPECT_EQ(intern({1}), known);
  table->check_invariants();
  pages.limit_mapped_bytes(SIZE_MAX);
  const std::uint32_t next = intern({frame});
  EXPECT_EQ(next, table->count());
  EXPECT_EQ(table->site(next).depth, 1u);
  table->check_invariants();
}

TEST_F(SiteTableTest, WithoutNumbersAStackIsThatOfAnUnknownCallerAtItsRate) {
  std::uintptr_t frame = 1;
  for (; frame <= SiteTable::kMaxStacks; ++frame) ASSERT_EQ(intern({frame}), frame);
  EXPECT_TRUE(table->tells_all_apart());
  const std::uint32_t rest = intern({frame});
  ASSERT_NE(rest, 0u);
  EXPECT_EQ(table->site(rest).depth, 0u);
  EXPECT_FALSE(table->tells_all_apart());
  EXPECT_EQ(intern({frame + 1}), rest);
  EXPECT_EQ(intern({1}), 1u);
  const std::uint32_t at_another_rate = intern({1}, 2);
  EXPECT_NE(at_another_rate, rest);
  EXPECT_EQ(table->site(at_another_rate).rate, 2u);
}

class SiteTableRandomTest : public SeededTest, protected Fixture {};

TEST_F(SiteTableRandomTest, EveryStackIsFoundAgainWhileTheTableGrows) {
  std::map<std::pair<std::vector<std::uintptr_t>, std::size_t>, std::uint32_t> model;
  for (int step = 0; step < 20'000; ++step) {
    std::vector<std::uintptr_t> frames(below(6));
    for (std::uintptr_t& frame : frames) frame = below(12);
    const std::size_t rate = 1 + below(2);
    const std::uint32_t id = intern(frames, rate);
    const auto [it, is_new] = model.emplace(std::pair(frames, rate), id);
    ASSERT_EQ(it->second, id);
    if (is_new) {
      ASSERT_EQ(id, model.size());
    }
    if (step % 1000 == 0) table->check_invariants();
  }
  table->check_invariants();
}

TEST_F(SiteTableTest, ThreadsAgreeOnEveryStack) {
  constexpr int kThreads = 4;
  constexpr std::uintptr_t kStacks = 3000;
  std::vector<std::vector<std::uint32_t>> ids(kThreads);
  run_together(kThreads, [&](int t) {
    for (std::uintptr_t i = 0; i < kStacks; ++i) {
      const std::uint32_t id = intern({i, i / 7});
      ids[static_cast<std::size_t>(t)].push_back(id);
      table->site(id).add(16, 10);
    }
  });
  for (const auto& of_thread : ids) EXPECT_EQ(of_thread, ids[0]);
  for (std::uint32_t id = 1; id <= kStacks; ++id)
    ASSERT_EQ(table->site(id).sums().live_bytes, 10u * kThreads);
  table->check_invariants();
}

TEST_F(SiteTableTest, WhoWalksMeanwhileSeesWholeSitesAndLabels) {
  constexpr std::uintptr_t kStacks = 3000;
  run_together(2, [&](int t) {
    if (t == 0) {
      for (std::uintptr_t i = 1; i <= kStacks; ++i) {
        const std::string name = "heap " + std::to_string(i % (SiteTable::kMostLabels - 1));
        table->intern(&i, 1, 1, table->label(name));
      }
      return;
    }
    const HeapLabel* latest = nullptr;
    for (std::uint32_t seen = 0; seen < kStacks;) {
      const HeapLabel* const labels = table->labels();
      for (const HeapLabel* each = labels; each != latest; each = each->next)
        ASSERT_TRUE(std::string_view(each->text).starts_with("heap "));
      latest = labels;
      const std::uint32_t count = table->count();
      for (; seen < count; ++seen) ASSERT_EQ(table->site(seen + 1).frames[0], seen + 1);
    }
  });
}

}  // namespace
}  // namespace strata
