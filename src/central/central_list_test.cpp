#include "central/central_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

/// Claims from the list, and adds a new span whenever the list has no free object left.
std::size_t claim_with_new_spans(CentralList& list, SpanSource& spans, void** end,
                                 std::size_t count,
                                 CentralList::From from = CentralList::From::kLowest,
                                 CentralList::First first = CentralList::First::kAny) {
  std::size_t claimed = list.try_claim(end, count, from, first).count;
  while (claimed < count) {
    Span* const span = spans.create(list.size_class());
    if (span == nullptr) break;
    list.add(*span);
    claimed += list.try_claim(end - claimed, count - claimed, from, first).count;
  }
  return claimed;
}

struct CentralListTest : ::testing::Test {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  IdleTally tally;

  CentralList make(unsigned size_class, unsigned shard = 0) {
    return CentralList(size_class, space.spans, tally, shard);
  }

  /// Claims `count` objects, in the order in which a stack would pop them; makes new spans if need
  /// be.
  std::vector<void*> claim_marked(CentralList& list, std::size_t count) {
    std::vector<void*> objects(count);
    const std::size_t claimed =
        claim_with_new_spans(list, space.spans, objects.data() + count, count);
    objects.erase(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(count - claimed));
    std::reverse(objects.begin(), objects.end());
    return objects;
  }
  /// The same, without the marks of fresh objects, as a program gets them.
  std::vector<void*> claim(CentralList& list, std::size_t count) {
    std::vector<void*> objects = claim_marked(list, count);
    for (void*& object : objects) object = FreeObject(object).address();
    return objects;
  }
  static void release(CentralList& list, std::vector<void*> objects) {
    ASSERT_EQ(list.release(objects.data(), objects.size()), 0u);
  }
  static void release(CentralList& list, void* object) { ASSERT_EQ(list.release(&object, 1), 0u); }
};

TEST_F(CentralListTest, HandsOutEveryObjectOfASpanOnceAndThenMakesAnother) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    CentralList list = make(c);
    const std::size_t in_span = span_pages_of(c) * kPageBytes / SizeClassMap::bytes_of(c);
    const std::vector<void*> objects = claim(list, in_span);
    ASSERT_EQ(objects.size(), in_span);
    EXPECT_EQ(list.statistics().spans, 1u);
    EXPECT_EQ(list.statistics().free_objects, 0u);
    EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), in_span);
    for (void* object : objects) {
      EXPECT_EQ(space.map.class_of(object), c);
      const Span* span = space.map.span_of(object);
      EXPECT_LT(span->index_of(object), span->object_count);
    }
    const std::vector<void*> more = claim(list, 1);
    EXPECT_EQ(list.statistics().spans, 2u);
    release(list, objects);
    release(list, more);
    EXPECT_EQ(list.kept_spans(), 2u);
    EXPECT_EQ(list.destroy_kept(2), 2u);
    EXPECT_EQ(list.statistics().spans, 0u);
    list.check_invariants();
  }
}

TEST_F(CentralListTest, LowAddressesArePoppedFirst) {
  CentralList list = make(1);
  const std::vector<void*> objects = claim(list, 300);
  EXPECT_TRUE(std::is_sorted(objects.begin(), objects.end()));
  release(list, objects);
}

/// Two threads that claim from opposite ends have neighbouring objects only where they meet.
TEST_F(CentralListTest, HighAddressesAreClaimedFirstFromTheOtherEnd) {
  for (const std::size_t bytes : {16, 48, 1024, 8192}) {
    const unsigned c = SizeClassMap::class_of(bytes);
    CentralList list = make(c);
    list.add(*space.spans.create(c));
    std::vector<void*> low;
    std::vector<void*> high;
    const std::size_t in_span = list.free_objects();
    for (std::size_t batch = 1; low.size() + high.size() < in_span; batch = batch % 90 + 7) {
      std::vector<void*> objects(batch);
      const auto claim_from = [&](CentralList::From from, std::vector<void*>& all) {
        const std::size_t claimed = list.try_claim(objects.data() + batch, batch, from).count;
        for (std::size_t i = 0; i < claimed; ++i)
          all.push_back(FreeObject(objects[batch - 1 - i]).address());
        list.check_invariants();
      };
      claim_from(CentralList::From::kLowest, low);
      claim_from(CentralList::From::kHighest, high);
    }
    EXPECT_TRUE(std::is_sorted(low.begin(), low.end()));
    EXPECT_TRUE(std::is_sorted(high.rbegin(), high.rend()));
    EXPECT_LT(low.back(), high.back());
    EXPECT_EQ(low.size() + high.size(), in_span);
    release(list, low);
    release(list, high);
    list.destroy_kept(1);
  }
}

TEST_F(CentralListTest, WhatCameBackInNoOrderIsClaimedInOrderFromEitherEnd) {
  std::mt19937 random(1);
  for (const std::size_t bytes : {16, 48, 1024}) {
    const unsigned c = SizeClassMap::class_of(bytes);
    for (const std::size_t percent : {5, 50, 95}) {
      CentralList list = make(c);
      list.add(*space.spans.create(c));
      std::vector<void*> objects = claim(list, list.free_objects());
      std::shuffle(objects.begin(), objects.end(), random);
      const auto end = static_cast<std::ptrdiff_t>(objects.size() * percent / 100);
      std::vector<void*> free(objects.begin(), objects.begin() + end);
      release(list, free);
      std::sort(free.begin(), free.end());
      auto from = CentralList::From::kLowest;
      while (!free.empty()) {
        const std::size_t count = std::min<std::size_t>(1 + random() % 100, free.size());
        const auto size = static_cast<std::ptrdiff_t>(count);
        std::vector<void*> claimed(count);
        ASSERT_EQ(list.try_claim(claimed.data() + count, count, from).count, count);
        if (from == CentralList::From::kLowest) {
          std::reverse(claimed.begin(), claimed.end());
          ASSERT_TRUE(std::equal(claimed.begin(), claimed.end(), free.begin()));
          free.erase(free.begin(), free.begin() + size);
          from = CentralList::From::kHighest;
        } else {
          ASSERT_TRUE(std::equal(claimed.begin(), claimed.end(), free.end() - size));
          free.erase(free.end() - size, free.end());
          from = CentralList::From::kLowest;
        }
        list.check_invariants();
      }
      release(list, objects);
      list.destroy_kept(1);
    }
  }
}

/// Eight neighbours fill two cache lines, or a multiple of two.
TEST_F(CentralListTest, ObjectsOfLinesWhereNobodyHasOneAreClaimedFirstIfAskedFor) {
  constexpr std::size_t kGroup = 8;
  for (const auto from : {CentralList::From::kLowest, CentralList::From::kHighest}) {
    for (unsigned c = 1; SizeClassMap::bytes_of(c) < 256; ++c) {
      CentralList list = make(c);
      Span& span = *space.spans.create(c);
      list.add(span);
      const std::size_t in_span = span.object_count;
      const auto at = [&](std::size_t index) {
        return span.start + index * SizeClassMap::bytes_of(c);
      };
      std::vector<void*> objects = claim(list, in_span);
      // Free are all objects of the third, fourth and tenth group; of each other group all but one.
      std::set<void*> whole;
      std::set<void*> others;
      for (std::size_t i = 0; i < 16 * kGroup; ++i) {
        const std::size_t group = i / kGroup;
        if (group == 2 || group == 3 || group == 9) {
          whole.insert(at(i));
        } else if (i % kGroup != group % kGroup) {
          others.insert(at(i));
        }
      }
      for (const auto* some : {&whole, &others}) {
        for (void* const object : *some) release(list, object);
      }
      for (const auto* expected : {&whole, &others}) {
        std::set<void*> claimed;
        while (claimed.size() < expected->size()) {
          std::vector<void*> some(std::min(kGroup, expected->size() - claimed.size()));
          const std::size_t count = list.try_claim(some.data() + some.size(), some.size(), from,
                                                   CentralList::First::kWholeLines)
                                        .count;
          ASSERT_EQ(count, some.size());
          for (void* const object : some) claimed.insert(FreeObject(object).address());
          list.check_invariants();
        }
        EXPECT_EQ(claimed, *expected) << SizeClassMap::bytes_of(c) << " bytes";
      }
      release(list, objects);
      list.destroy_kept(1);
    }
  }
}

TEST_F(CentralListTest, FromTheOtherEndTheFirstObjectOfASpanComesLast) {
  space.spans.set_seed(1);
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    CentralList list = make(c);
    Span* const span = space.spans.create(c);
    const std::size_t first = span->first_object;
    const std::size_t in_span = span->object_count;
    list.add(*span);
    std::size_t seen = 0;
    for (std::size_t batch = 1; seen < in_span; batch += 7) {
      std::vector<void*> objects(batch);
      const std::size_t claimed =
          list.try_claim(objects.data() + batch, batch, CentralList::From::kHighest).count;
      ASSERT_NE(claimed, 0u);
      for (std::size_t i = 0; i < claimed; ++i, ++seen) {
        void*& object = objects[batch - 1 - i];
        object = FreeObject(object).address();
        ASSERT_EQ(span->index_of(object), (first + in_span - 1 - seen) % in_span) << "class " << c;
      }
      list.check_invariants();
      if (seen == in_span) break;
      // One object comes back, and is claimed again before those further on.
      release(list, objects[batch - claimed]);
      --seen;
    }
    EXPECT_EQ(list.statistics().spans, 1u);
    EXPECT_EQ(list.free_objects(), 0u);
    for (std::size_t i = 0; i < in_span; ++i)
      release(list, span->start + i * SizeClassMap::bytes_of(c));
    list.destroy_kept(1);
  }
}

TEST_F(CentralListTest, TheObjectsBelowTheFirstOneOfASpanComeLast) {
  space.spans.set_seed(1);
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    CentralList list = make(c);
    const std::size_t in_span = span_pages_of(c) * kPageBytes / SizeClassMap::bytes_of(c);
    std::vector<void*> objects = claim(list, 1);
    const Span& span = *space.map.span_of(objects[0]);
    const std::size_t first = span.index_of(objects[0]);
    EXPECT_EQ(first, span.first_object);
    for (std::size_t batch = 1; objects.size() < in_span; batch += 7) {
      const auto more = claim(list, std::min(batch, in_span - objects.size()));
      objects.insert(objects.end(), more.begin(), more.end());
      list.check_invariants();
    }
    for (std::size_t i = 0; i < in_span; ++i)
      ASSERT_EQ(span.index_of(objects[i]), (first + i) % in_span) << "class " << c;
    EXPECT_EQ(list.statistics().spans, 1u);
    release(list, objects);
    list.check_invariants();
    EXPECT_EQ(claim(list, 1)[0], span.start) << "now all are alike: the lowest is first";
    list.destroy_kept(~std::size_t{0});
  }
}

TEST_F(CentralListTest, WhatComesBackToASpanIsClaimedBeforeTheObjectsBelowItsFirstOne) {
  space.spans.set_seed(1);
  CentralList list = make(1);
  std::vector<void*> objects = claim(list, 300);
  const Span& span = *space.map.span_of(objects[0]);
  if (os::page_bytes() != kPageBytes) {
    ASSERT_NE(span.first_object, 0u);
  }
  std::reverse(objects.begin(), objects.end());
  release(list, std::vector<void*>(objects.begin() + 100, objects.begin() + 200));
  list.check_invariants();
  const std::vector<void*> again = claim(list, 100);
  EXPECT_EQ(again, std::vector<void*>(objects.rbegin() + 100, objects.rbegin() + 200));
}

TEST_F(CentralListTest, WhatLiesBelowTheFirstObjectIsDecommittedAsAHoleLikeTheRest) {
  if (os::page_bytes() == kPageBytes) GTEST_SKIP() << "a span is one OS page";
  space.spans.set_seed(1);
  CentralList list = make(1);
  const std::vector<void*> objects = claim(list, 1);
  Span& span = *space.map.span_of(objects[0]);
  ASSERT_GE(span.first_object * std::size_t{span.object_bytes}, os::page_bytes());
  span.decommitted_free = 0;  // as if its pages had been used before
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kAll), span.bytes() - os::page_bytes());
  EXPECT_EQ(static_cast<char*>(objects[0])[0], 0);
}

TEST_F(CentralListTest, AnEmptySpanIsKeptUntilItIsAskedFor) {
  CentralList list = make(5);
  const std::vector<void*> objects = claim(list, 10);
  EXPECT_EQ(list.kept_spans(), 0u);
  release(list, objects);
  EXPECT_EQ(list.kept_spans(), 1u);
  EXPECT_EQ(space.heap.statistics().used_pages, span_pages_of(5));
  const std::vector<void*> again = claim(list, 10);
  EXPECT_EQ(again, objects);
  EXPECT_EQ(list.kept_spans(), 0u);
  release(list, again);
  EXPECT_EQ(list.destroy_kept(7), 1u);
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
  EXPECT_EQ(list.statistics().pages, 0u);
  EXPECT_EQ(space.map.class_of(objects[0]), 0u);
}

TEST_F(CentralListTest, TheFullestSpanServesFirst) {
  const unsigned c = SizeClassMap::class_of(4096);
  CentralList list = make(c);
  const std::size_t in_span = span_pages_of(c) * kPageBytes / SizeClassMap::bytes_of(c);
  const std::vector<void*> objects = claim(list, 2 * in_span);
  ASSERT_EQ(list.statistics().spans, 2u);
  Span* fuller = space.map.span_of(objects.back());
  Span* emptier = space.map.span_of(objects.front());
  ASSERT_NE(fuller, emptier);
  release(list, objects.back());
  release(list, std::vector<void*>(objects.begin(),
                                   objects.begin() + static_cast<std::ptrdiff_t>(in_span) - 1));
  list.check_invariants();
  const std::vector<void*> again = claim(list, 1);
  EXPECT_EQ(space.map.span_of(again[0]), fuller);
}

TEST_F(CentralListTest, WhileItCompactsSpansServeByAddressAndThoseThatAreNearlyEmptyLast) {
  constexpr std::size_t kSpans = 60;
  CentralList list = make(SizeClassMap::class_of(1024));
  const std::size_t in_span = kPageBytes / 1024;
  std::vector<void*> objects = claim(list, kSpans * in_span);
  std::sort(objects.begin(), objects.end());
  // If the fullest span served first, the highest span would be the first, and the lowest one the
  // last.
  std::size_t free = 0;
  for (std::size_t span = 0; span < kSpans; ++span) {
    const std::size_t count = span == 0 ? 60 : span == kSpans - 1 ? 4 : in_span / 2;
    const auto first = objects.begin() + static_cast<std::ptrdiff_t>(span * in_span);
    release(list, {first, first + static_cast<std::ptrdiff_t>(count)});
    free += count;
  }
  list.look();
  list.look();
  ASSERT_TRUE(list.is_compacting());
  list.check_invariants();
  const auto page_of = [](const void* p) {
    return reinterpret_cast<std::uintptr_t>(p) / kPageBytes;
  };
  const std::uintptr_t lowest = page_of(objects.front());
  const std::uintptr_t part = (page_of(objects.back()) - lowest) / 12 + 1;
  const std::vector<void*> claimed = claim(list, free);
  std::uintptr_t latest = 0;
  for (std::size_t i = 0; i < free - 60; ++i) {
    const std::uintptr_t page = page_of(claimed[i]) - lowest;
    ASSERT_NE(page, 0u) << i;
    EXPECT_GE(page / part + 1, latest) << i;
    latest = page / part;
  }
  for (std::size_t i = free - 60; i < free; ++i) EXPECT_EQ(page_of(claimed[i]), lowest) << i;
  release(list, objects);
  list.check_invariants();
  EXPECT_EQ(list.destroy_kept(kSpans), kSpans);
}

TEST_F(CentralListTest, ASpanThatServesWhileItCompactsIsHomewardAgainInTheNextTurn) {
  constexpr std::size_t kSpans = 40;
  CentralList list = make(SizeClassMap::class_of(1024));
  const std::size_t in_span = kPageBytes / 1024;
  std::vector<void*> objects = claim(list, kSpans * in_span);
  std::sort(objects.begin(), objects.end());
  std::vector<void*> kept;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 2 == 0) {
      kept.push_back(objects[i]);
    } else {
      release(list, objects[i]);
    }
  }
  list.look();
  list.look();
  ASSERT_TRUE(list.is_compacting());
  const auto is_homeward = [this](const void* p) {
    return space.map.class_of(p) == SizeClassMap::kHomeward;
  };
  for (const void* p : kept) ASSERT_TRUE(is_homeward(p));
  const std::vector<void*> claimed = claim(list, in_span);
  for (const void* p : claimed) ASSERT_FALSE(is_homeward(p));
  EXPECT_TRUE(is_homeward(kept.back()));
  release(list, claimed.back());
  EXPECT_EQ(claim(list, 1).front(), claimed.back()) << "its span is listed by address";
  list.check_invariants();
  // An eighth of the objects comes back.
  const auto end = kept.end() - kSpans * in_span / 8;
  release(list, {end, kept.end()});
  kept.erase(end, kept.end());
  ASSERT_TRUE(list.is_compacting());
  for (const void* p : claimed) ASSERT_TRUE(is_homeward(p));
  list.check_invariants();
  release(list, claimed);
  release(list, kept);
}

/// Meanwhile other threads wait for the list.
TEST_F(CentralListTest, ManySpansFollowATurnSomeAtATime) {
  constexpr std::size_t kSpans = 1500;
  CentralList list = make(SizeClassMap::class_of(1024));
  std::vector<void*> freed = claim(list, kSpans * (kPageBytes / 1024));
  std::vector<void*> live;
  for (std::size_t i = freed.size(); i-- != 0;) {
    if (i % 4 == 0) {
      live.push_back(freed[i]);
      freed.erase(freed.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  const auto count_homeward = [&] {
    return static_cast<std::size_t>(std::count_if(live.begin(), live.end(), [&](const void* p) {
      return space.map.class_of(p) == SizeClassMap::kHomeward;
    }));
  };
  std::size_t homeward = 0;
  std::size_t steps = 0;
  while (homeward < live.size()) {
    ASSERT_GE(freed.size(), 32u) << "it does not compact, or some spans do not follow";
    release(list, {freed.end() - 32, freed.end()});
    freed.resize(freed.size() - 32);
    const std::size_t now = count_homeward();
    EXPECT_LE(now - homeward, live.size() / 4);
    steps += now != homeward;
    homeward = now;
    list.check_invariants();
  }
  EXPECT_GE(steps, 4u);
  release(list, freed);
  // Spans also follow the end of compacting, whatever brings a thread to the list: here, the
  // release of objects of the spans that follow last.
  while (list.is_compacting()) {
    const std::vector<void*> more = claim(list, 1000);
    live.insert(live.end(), more.begin(), more.end());
    release(list, live.back());
    live.pop_back();
  }
  ASSERT_GT(count_homeward(), 0u);
  for (int i = 0; i < 10; ++i) {
    release(list, live.back());
    live.pop_back();
    list.check_invariants();
  }
  EXPECT_EQ(count_homeward(), 0u);
  release(list, live);
}

/// When a list ends compacting, too, each use of the list has some spans follow. A span to which an
/// object comes back follows at once.
TEST_F(CentralListTest, SpansThatNobodyClaimsFromFollowTheEndOfIt) {
  constexpr std::size_t kSpans = 1500;
  CentralList list = make(SizeClassMap::class_of(1024));
  const std::size_t in_span = kPageBytes / 1024;
  std::vector<void*> objects = claim(list, kSpans * in_span);
  const std::size_t half = objects.size() / 2;
  std::vector<void*> of_full;  // one of each span that stays full
  for (std::size_t i = 0; i < half; i += in_span) of_full.push_back(objects[i]);
  std::vector<void*> live(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(half));
  std::vector<void*> freed;
  for (std::size_t i = half; i < objects.size(); ++i)
    (i % 2 == 0 ? live : freed).push_back(objects[i]);
  release(list, freed);
  list.look();
  list.look();
  list.look();
  ASSERT_TRUE(list.is_compacting());
  const auto is_homeward = [this](const void* p) {
    return space.map.class_of(p) == SizeClassMap::kHomeward;
  };
  for (const void* p : of_full) ASSERT_TRUE(is_homeward(p));
  for (void* p : claim(list, freed.size())) live.push_back(p);
  ASSERT_EQ(list.free_objects(), 0u);
  release(list, of_full.back());
  ASSERT_FALSE(list.is_compacting());
  of_full.pop_back();
  ASSERT_TRUE(std::any_of(of_full.begin(), of_full.end(), is_homeward)) << "all did at once";
  release(list, of_full);
  list.check_invariants();
  EXPECT_FALSE(std::any_of(of_full.begin(), of_full.end(), is_homeward));
  for (int i = 0; i < 12; ++i) {
    release(list, live.back());
    live.pop_back();
    list.check_invariants();
  }
  EXPECT_FALSE(std::any_of(live.begin(), live.end(), is_homeward));
}

/// A list that frees and claims the same objects by turns takes the slow path less and less, even
/// if some spans were nearly empty before.
TEST_F(CentralListTest, AListThatGainsNothingByItCompactsLessAndLess) {
  constexpr std::size_t kCount = 200'000;
  constexpr std::size_t kInSpan = kPageBytes / 64;
  for (const std::size_t nearly_empty : {std::size_t{0}, std::size_t{12}}) {
    CentralList list = make(SizeClassMap::class_of(64));
    std::vector<void*> live = claim(list, kCount + nearly_empty * kInSpan);
    std::sort(live.begin(), live.end());
    std::vector<void*> few;
    while (live.size() > kCount) {
      if (live.size() % 32 == 0) {
        few.push_back(live.back());
      } else {
        release(list, live.back());
      }
      live.pop_back();
    }
    std::size_t slow = 0;
    std::size_t first = 0;
    constexpr std::size_t kRounds = 64;
    for (std::size_t round = 0; round < kRounds; ++round) {
      // An eighth of the objects goes, from all spans, and as many come.
      std::vector<void*> freed;
      std::vector<void*> kept;
      for (std::size_t i = 0; i < live.size(); ++i)
        (i % 8 == round % 8 ? freed : kept).push_back(live[i]);
      for (std::size_t i = 0; i < freed.size(); i += 100) {
        const std::size_t count = std::min<std::size_t>(100, freed.size() - i);
        if (list.is_compacting()) slow += count;
        ASSERT_EQ(list.release(freed.data() + i, count), 0u);
      }
      if (round == 7) first = slow;
      live = std::move(kept);
      const std::vector<void*> more = claim(list, kCount - live.size());
      live.insert(live.end(), more.begin(), more.end());
      if (round % 16 == 0) list.check_invariants();
    }
    EXPECT_GT(slow, 0u);
    const std::size_t most = nearly_empty == 0 ? kCount : 4 * kCount;
    EXPECT_LT(slow, most) << nearly_empty;
    EXPECT_LT(slow - first, most / 2) << nearly_empty;
    release(list, live);
    release(list, few);
  }
}

/// A list whose class shrinks goes on compacting, although no span becomes empty at first.
TEST_F(CentralListTest, AListThatShrinksGoesOnCompacting) {
  CentralList list = make(SizeClassMap::class_of(64));
  std::vector<void*> live = claim(list, 200'000);
  while (live.size() > 60'000) {
    std::vector<void*> kept;
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (i % 8 == 0) {
        release(list, live[i]);
      } else {
        kept.push_back(live[i]);
      }
    }
    live = std::move(kept);
    ASSERT_TRUE(live.size() >= 160'000 || list.is_compacting()) << live.size();
  }
  list.check_invariants();
  release(list, live);
}

TEST_F(CentralListTest, AnObjectIsMarkedFreshUntilAProgramHadIt) {
  for (const std::size_t bytes : {4096u, 6144u, 20480u, 131072u}) {
    const unsigned c = SizeClassMap::class_of(bytes);
    CentralList list = make(c);
    const std::size_t in_span = span_pages_of(c) * kPageBytes / bytes;
    space.heap.decommit(~std::size_t{0});  // what the size before left is clean again
    std::vector<void*> objects = claim_marked(list, 2 * in_span);
    std::set<void*> fresh;
    for (std::size_t i = 0; i < objects.size(); ++i) {
      ASSERT_TRUE(FreeObject(objects[i]).is_fresh()) << bytes;
      // A program frees the address that it was given, which has no mark.
      if (i % 3 == 0) {
        objects[i] = FreeObject(objects[i]).address();
      } else {
        fresh.insert(FreeObject(objects[i]).address());
      }
    }
    for (void*& object : objects) release(list, object);
    list.check_invariants();
    for (void* object : claim_marked(list, objects.size())) {
      const bool was_had = fresh.count(FreeObject(object).address()) == 0;
      ASSERT_EQ(FreeObject(object).is_fresh(), !was_had) << bytes;
      release(list, object);
    }
    list.destroy_kept(2);
  }
}

TEST_F(CentralListTest, NoObjectOfASmallClassIsMarked) {
  for (const unsigned c : {1u, 16u, SizeClassMap::class_of(Span::kFreshFromBytes) - 1}) {
    CentralList list = make(c);
    const std::vector<void*> objects = claim_marked(list, 10);
    for (void* object : objects) ASSERT_FALSE(FreeObject(object).is_fresh());
    release(list, objects);
    list.destroy_kept(1);
  }
}

/// A span whose free objects have not changed for a round gives back the OS pages that contain only
/// free objects.
TEST_F(CentralListTest, HolesOfASpanLeftAloneGoBackAndLiveObjectsKeepTheirContents) {
  for (const std::size_t bytes : {16u, 112u, 1024u, 1280u, 4608u, 20480u}) {
    const unsigned c = SizeClassMap::class_of(bytes);
    CentralList list = make(c);
    const std::size_t in_span = span_pages_of(c) * kPageBytes / bytes;
    const std::vector<void*> objects = claim(list, in_span);
    for (void* object : objects) std::memset(object, 0x5a, bytes);
    // Every seventh object of the first half, and the last object, live on.
    std::vector<void*> live;
    std::vector<void*> freed;
    for (std::size_t i = 0; i < in_span; ++i) {
      const bool lives = (i < in_span / 2 && i % 7 == 0) || i == in_span - 1;
      (lives ? live : freed).push_back(objects[i]);
    }
    release(list, freed);
    EXPECT_EQ(list.decommit_holes(CentralList::Spans::kQuiet), 0u)
        << "the span was in use a moment ago";
    const std::size_t returned = list.decommit_holes(CentralList::Spans::kQuiet);
    EXPECT_GE(returned + 2 * os::page_bytes() + 2 * bytes, in_span / 2 * bytes) << bytes;
    EXPECT_LE(returned, freed.size() * bytes) << bytes;
    EXPECT_EQ(list.decommit_holes(CentralList::Spans::kQuiet), 0u)
        << "what was returned is not returned again";
    for (const void* object : live) {
      const auto* at = static_cast<const unsigned char*>(object);
      EXPECT_TRUE(std::all_of(at, at + bytes, [](unsigned char byte) { return byte == 0x5a; }))
          << bytes;
    }
    // The objects are still in their span, and can be claimed again.
    const std::vector<void*> again = claim(list, freed.size());
    EXPECT_EQ(std::set<void*>(again.begin(), again.end()),
              std::set<void*>(freed.begin(), freed.end()));
    for (void* object : again) std::memset(object, 1, bytes);
    list.check_invariants();
    release(list, again);
    release(list, live);
  }
}

TEST_F(CentralListTest, WhereHolesMayNotBeFilledSpansWithoutThemServe) {
  if (os::page_bytes() > 4096) GTEST_SKIP() << "the holes are smaller than an OS page";
  CentralList list = make(SizeClassMap::class_of(1024));
  // More spans get a hole than one call visits. The last span has free objects but no hole.
  constexpr std::size_t kWithHoles = 300;
  std::vector<void*> objects = claim(list, 64 * (kWithHoles + 1));
  std::vector<void*> freed;
  for (std::size_t i = 0; i < 64 * kWithHoles; i += 64)
    freed.insert(freed.end(), &objects[i], &objects[i + 4]);
  release(list, freed);
  ASSERT_EQ(list.decommit_holes(CentralList::Spans::kAll), kWithHoles * 4096u);
  for (std::size_t i = 64 * kWithHoles; i < objects.size(); i += 2) release(list, objects[i]);
  space.limit.configure(0, space.limit.held_bytes());
  std::vector<void*> served(64);
  EXPECT_EQ(list.claim(served.data() + 64, 64), 32u);
  list.check_invariants();
  space.limit.configure(0, 0);
  EXPECT_EQ(list.claim(served.data() + 32, 32), 32u) << "below the limit the holes are filled";
  list.check_invariants();
}

TEST_F(CentralListTest, WhatWasIdleWhenItCameLeavesASpanAsQuietAsItWas) {
  if (os::page_bytes() > 4096) GTEST_SKIP() << "the holes are smaller than an OS page";
  CentralList list = make(SizeClassMap::class_of(1024));
  const std::vector<void*> objects = claim(list, 64);
  release(list, std::vector<void*>(objects.begin(), objects.begin() + 16));
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kQuiet), 0u);
  std::vector<void*> idle(objects.begin() + 16, objects.begin() + 32);
  ASSERT_EQ(list.release_idle(idle.data(), idle.size()), 0u);
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kQuiet), 32 * 1024u);

  idle.assign(objects.begin() + 32, objects.begin() + 48);
  release(list, objects[48]);
  ASSERT_EQ(list.release_idle(idle.data(), idle.size()), 0u);
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kQuiet), 0u) << "one was in use just now";

  // The rest of the span goes back with its last objects, which nobody needed either.
  idle.assign(objects.begin() + 49, objects.end());
  ASSERT_EQ(list.release_idle(idle.data(), idle.size()), 0u);
  EXPECT_EQ(list.statistics().spans, 0u);
  EXPECT_EQ(space.heap.idle_pages(), 0u);
  space.heap.check_invariants();
}

TEST_F(CentralListTest, AHoleThatTheKernelLeftGoesBackWhenAllAreAskedForAgain) {
  if (os::page_bytes() > 4096) GTEST_SKIP() << "the holes are smaller than an OS page";
  CentralList list = make(SizeClassMap::class_of(1024));
  const std::vector<void*> objects = claim(list, 64);
  release(list, std::vector<void*>(objects.begin(), objects.begin() + 32));
  pages.refuse_decommits(true);  // as where memory is locked
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kAll), 0u);
  pages.refuse_decommits(false);
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kAll), 32 * 1024u);
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kAll), 0u) << "none is left";
  list.check_invariants();
}

TEST_F(CentralListTest, ASpanFullBeforeIsQuietAndOneThatServedIsNot) {
  CentralList list = make(SizeClassMap::class_of(1024));
  std::vector<void*> objects = claim(list, 64);
  list.decommit_holes(CentralList::Spans::kQuiet);
  std::vector<void*> again = objects;
  ASSERT_EQ(list.release_idle(again.data(), again.size()), 0u);
  EXPECT_EQ(list.kept_spans(), 0u);
  EXPECT_EQ(space.heap.decommit_unneeded(), 1u);

  objects = claim(list, 64);
  std::vector<void*> some(objects.begin(), objects.begin() + 32);
  ASSERT_EQ(list.release_idle(some.data(), some.size()), 0u);
  some = claim(list, 32);
  release(list, some);
  std::vector<void*> others(objects.begin() + 32, objects.end());
  ASSERT_EQ(list.release_idle(others.data(), others.size()), 0u);
  EXPECT_EQ(list.kept_spans(), 1u) << "a part of it was in use just now";
  list.check_invariants();
  list.destroy_kept(1);
}

TEST_F(CentralListTest, WhatIsFreedAfterIdleObjectsCameBackWasInUse) {
  CentralList list = make(SizeClassMap::class_of(1024));
  std::vector<void*> objects = claim(list, 64);
  list.decommit_holes(CentralList::Spans::kQuiet);
  std::vector<void*> idle(objects.begin(), objects.begin() + 16);
  ASSERT_EQ(list.release_idle(idle.data(), idle.size()), 0u);
  release(list, std::vector<void*>(objects.begin() + 16, objects.begin() + 48));
  EXPECT_EQ(list.decommit_holes(CentralList::Spans::kQuiet), 0u);
  release(list, std::vector<void*>(objects.begin() + 48, objects.end()));
  EXPECT_EQ(list.kept_spans(), 1u);
  list.destroy_kept(1);
}

TEST_F(CentralListTest, ASpanThatChangesEachRoundKeepsItsMemory) {
  CentralList list = make(SizeClassMap::class_of(1024));
  std::vector<void*> objects = claim(list, 64);
  for (int round = 0; round < 20; ++round) {
    release(list, objects.back());
    objects.pop_back();
    EXPECT_EQ(list.decommit_holes(CentralList::Spans::kQuiet), 0u);
  }
  release(list, objects);
}

TEST_F(CentralListTest, GivesWhatItHasWhenOutOfMemoryAndWorksOnAfterwards) {
  CentralList list = make(1);
  const std::vector<void*> first = claim(list, 1);
  const std::size_t in_span = kPageBytes / SizeClassMap::bytes_of(1);
  std::vector<void*> rest;
  pages.limit_mapped_bytes(0);
  // A region is mapped already: it fills up, and then nothing more comes.
  for (;;) {
    const std::vector<void*> objects = claim(list, in_span);
    list.check_invariants();
    rest.insert(rest.end(), objects.begin(), objects.end());
    if (objects.size() < in_span) break;
  }
  EXPECT_TRUE(claim(list, 1).empty());
  pages.limit_mapped_bytes(~std::size_t{0});
  const std::vector<void*> last = claim(list, 1);
  EXPECT_EQ(last.size(), 1u);
  release(list, first);
  release(list, rest);
  release(list, last);
  list.check_invariants();
  list.destroy_kept(~std::size_t{0});
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

using CentralListDeathTest = CentralListTest;

TEST_F(CentralListDeathTest, AnObjectThatIsFreeAlreadyIsFatal) {
  CentralList list = make(3);
  const std::vector<void*> objects = claim(list, 10);
  release(list, objects[0]);
  EXPECT_DEATH(release(list, objects[0]),
               "strata: double free of 0x[0-9a-f]+: the object is free already");
  void* twice[] = {objects[1], objects[2], objects[1]};
  EXPECT_DEATH(list.release(twice, 3),
               "strata: double free of 0x[0-9a-f]+: the object is free already");
}

TEST_F(CentralListDeathTest, OneOfARowOfNeighboursThatIsFreeAlreadyIsFatal) {
  CentralList list = make(3);
  std::vector<void*> objects = claim(list, 100);
  char text[64];
  std::snprintf(text, sizeof text, "double free of %p: the object is free already", objects[20]);
  release(list, objects[20]);
  EXPECT_DEATH(release(list, objects), text);
  std::reverse(objects.begin(), objects.end());
  EXPECT_DEATH(release(list, objects), text);
  std::vector<void*> twice(objects.begin(), objects.begin() + 40);
  twice.insert(twice.end(), objects.begin() + 20, objects.begin() + 40);
  EXPECT_DEATH(release(list, twice), "double free of ");
}

TEST_F(CentralListDeathTest, ARowThatGoesOnBehindTheLastObjectOfASpanIsFatal) {
  CentralList list = make(3);
  const std::size_t in_span = span_pages_of(3) * kPageBytes / SizeClassMap::bytes_of(3);
  std::vector<void*> objects = claim(list, in_span);
  char* const last = static_cast<char*>(objects.back());
  objects.push_back(last + SizeClassMap::bytes_of(3));
  char text[64];
  std::snprintf(text, sizeof text, "invalid free of %p: it points into an object", objects.back());
  EXPECT_DEATH(release(list, objects), text);
  std::reverse(objects.begin(), objects.end());
  EXPECT_DEATH(release(list, objects), text);
}

TEST_F(CentralListDeathTest, AnObjectWhoseSpanIsGoneIsFatal) {
  CentralList list = make(3);
  const std::vector<void*> objects = claim(list, 1);
  release(list, objects);
  EXPECT_DEATH(release(list, objects), "strata: double free of ");
  list.destroy_kept(1);
  EXPECT_DEATH(release(list, objects),
               "strata: invalid free of 0x[0-9a-f]+: the object was freed "
               "twice, or deleted with a size that is not its own");
}

TEST_F(CentralListDeathTest, AnObjectWhosePagesAreABlockByNowIsFatal) {
  CentralList list = make(3);
  const std::vector<void*> objects = claim(list, 1);
  release(list, objects);
  list.destroy_kept(1);
  const Span* const block = space.heap.allocate(1);
  ASSERT_EQ(space.map.span_of(objects[0]), block);
  EXPECT_DEATH(release(list, objects),
               "strata: invalid free of 0x[0-9a-f]+: the object was freed "
               "twice, or deleted with a size that is not its own");
}

TEST_F(CentralListDeathTest, AnObjectWhosePagesHaveWatchedOnesByNowIsFatal) {
  SpanSource watched(space.map, space.heap, space.metadata, pages, SpanSource::Use::kWatched);
  CentralList list = make(3);
  const std::vector<void*> objects = claim(list, 1);
  release(list, objects);
  list.destroy_kept(1);
  const Span* const span = watched.create(3);
  ASSERT_EQ(space.map.span_of(objects[0]), span);
  EXPECT_DEATH(release(list, objects),
               "strata: invalid free of 0x[0-9a-f]+: the object was freed "
               "twice, or deleted with a size that is not its own");
}

TEST_F(CentralListDeathTest, AmongObjectsOfAnyClassOneThatIsInNoSpanIsFatal) {
  CentralList list = make(3);
  std::vector<void*> objects = claim(list, 1);
  release(list, objects);
  list.destroy_kept(1);
  EXPECT_DEATH(list.release(objects.data(), 1, CentralList::Classes::kAny),
               "strata: invalid free of 0x[0-9a-f]+: the object was freed twice");
}

/// A span with holes is destroyed when its last object comes back.
TEST_F(CentralListDeathTest, AnObjectWhoseSpanWentWithItsOwnBatchIsFatal) {
  if (os::page_bytes() == kPageBytes) GTEST_SKIP() << "a span is one OS page, and no hole";
  CentralList list = make(SizeClassMap::class_of(1024));
  std::vector<void*> objects = claim(list, kPageBytes / 1024);
  void* const of_another = claim(list, 1).front();
  std::vector<void*> last(objects.end() - 2, objects.end());
  objects.resize(objects.size() - 2);
  release(list, objects);
  ASSERT_NE(list.decommit_holes(CentralList::Spans::kAll), 0u);
  void* twice[] = {last[0], last[1], of_another, last[0]};
  EXPECT_DEATH(list.release(twice, 4), "the object was freed twice, or deleted with a size");
  release(list, last);
  EXPECT_EQ(list.statistics().spans, 1u);
  release(list, of_another);
}

TEST_F(CentralListDeathTest, APointerIntoAnObjectIsFatal) {
  CentralList list = make(3);
  const std::vector<void*> objects = claim(list, 2);
  char* const object = static_cast<char*>(objects[1]);
  for (std::size_t offset : {std::size_t{1}, std::size_t{16}, SizeClassMap::bytes_of(3) - 1}) {
    void* interior = object + offset;
    EXPECT_DEATH(list.release(&interior, 1),
                 "strata: invalid free of 0x[0-9a-f]+: it points into "
                 "an object, not at its start");
  }
  const Span* span = space.map.span_of(object);
  ASSERT_NE(span->bytes() % span->object_bytes, 0u);
  void* tail = span->start + std::size_t{span->object_count} * span->object_bytes;
  EXPECT_DEATH(list.release(&tail, 1), "it points into an object, not at its start");
}

TEST_F(CentralListDeathTest, AnObjectOfAnotherClassIsFatal) {
  CentralList list = make(3);
  CentralList other = make(4);
  const std::vector<void*> objects = claim(list, 1);
  const std::vector<void*> strangers = claim(other, 1);
  EXPECT_DEATH(release(list, strangers), "deleted with a size that is not its own");
  int not_ours = 0;
  void* foreign = &not_ours;
  EXPECT_DEATH(list.release(&foreign, 1), "strata: invalid free of ");
  Span* large = space.heap.allocate(2);
  void* start = large->start;
  EXPECT_DEATH(list.release(&start, 1), "strata: invalid free of ");
}

class CentralListRandomTest : public SeededTest {
 protected:
  int compacting_steps = 0;
  int other_steps = 0;

  static char* unmarked(char* object) { return static_cast<char*>(FreeObject(object).address()); }

  void run(unsigned size_class, int steps) {
    os::FakePageSource pages;
    FakeAddressSpace space(pages);
    IdleTally tally;
    CentralList list(size_class, space.spans, tally);
    const std::size_t bytes = SizeClassMap::bytes_of(size_class);
    if (below(2) == 0) space.spans.set_seed(random());
    std::set<char*> claimed;
    for (int step = 0; step < steps; ++step) {
      const std::size_t count = 1 + below(below(3) == 0 ? 500 : 20);
      std::vector<void*> batch(count);
      if (claimed.size() < 200 || (below(2) == 0 && claimed.size() < 20'000)) {
        const auto from = static_cast<CentralList::From>(below(2));
        const auto first = static_cast<CentralList::First>(below(2));
        ASSERT_EQ(claim_with_new_spans(list, space.spans, batch.data() + count, count, from, first),
                  count);
        for (void* object : batch) {
          auto* p = static_cast<char*>(object);
          const auto [it, is_new] = claimed.insert(p);
          ASSERT_TRUE(is_new) << "handed out twice";
          if (it != claimed.begin()) {
            ASSERT_LE(unmarked(*std::prev(it)) + bytes, unmarked(p));
          }
          if (std::next(it) != claimed.end()) {
            ASSERT_LE(unmarked(p) + bytes, unmarked(*std::next(it)));
          }
        }
      } else {
        // Objects of one span and of others mixed, or rows of neighbours in either direction.
        batch.resize(std::min(count, claimed.size()));
        const bool has_rows = below(2) == 0;
        for (std::size_t i = 0; i < batch.size();) {
          auto it = claimed.lower_bound(
              *claimed.begin() +
              below(static_cast<std::size_t>(*claimed.rbegin() - *claimed.begin()) + 1));
          const std::size_t first = i;
          for (std::size_t row = has_rows ? 1 + below(150) : 1;
               row != 0 && i < batch.size() && it != claimed.end(); --row) {
            batch[i++] = *it;
            it = claimed.erase(it);
          }
          if (has_rows && below(2) == 0)
            std::reverse(batch.begin() + static_cast<std::ptrdiff_t>(first),
                         batch.begin() + static_cast<std::ptrdiff_t>(i));
        }
        list.release(batch.data(), batch.size());
      }
      if (below(10) == 0) list.destroy_kept(below(3));
      if (below(10) == 0) list.destroy_unneeded();
      if (below(10) == 0) list.decommit_holes(CentralList::Spans::kAll);
      if (below(4) == 0) list.look();
      (list.is_compacting() ? compacting_steps : other_steps) += 1;
      list.check_invariants();
      const CentralList::Statistics now = list.statistics();
      ASSERT_EQ(now.claimed_objects, claimed.size());
      ASSERT_EQ(now.claimed_objects + now.free_objects,
                now.spans * (span_pages_of(size_class) * kPageBytes / bytes));
    }
    std::vector<void*> rest(claimed.begin(), claimed.end());
    std::shuffle(rest.begin(), rest.end(), random);
    list.release(rest.data(), rest.size());
    list.check_invariants();
    ASSERT_EQ(list.statistics().spans, list.kept_spans());
    list.destroy_kept(~std::size_t{0});
    ASSERT_EQ(list.statistics().spans, 0u);
    ASSERT_EQ(list.pending_bytes(), 0u);
    ASSERT_EQ(space.heap.statistics().used_pages, 0u);
    space.heap.check_invariants();
  }
};

TEST_F(CentralListRandomTest, NoTinyObjectIsHandedOutTwiceAndAllComeBack) { run(1, 600); }
TEST_F(CentralListRandomTest, NoObjectOfOddSizeIsHandedOutTwiceAndAllComeBack) { run(11, 600); }
TEST_F(CentralListRandomTest, NoObjectOfAClassThatCompactsIsHandedOutTwiceAndAllComeBack) {
  run(SizeClassMap::class_of(4096), 600);
  EXPECT_GT(compacting_steps, 0);
  EXPECT_GT(other_steps, 0);
}
TEST_F(CentralListRandomTest, NoLargeObjectIsHandedOutTwiceAndAllComeBack) {
  run(SizeClassMap::class_of(40'000), 200);
}

TEST_F(CentralListTest, ThreadsNeverHoldTheSameObject) {
  constexpr unsigned kClass = 6;
  constexpr int kThreads = 4;
  CentralList list = make(kClass);
  run_together(kThreads, [&](int t) {
    std::vector<void*> mine;
    for (std::size_t i = 0; i < 500; ++i) {
      if (mine.size() < 300) {
        std::vector<void*> batch(1 + i % 90);
        ASSERT_EQ(
            claim_with_new_spans(list, space.spans, batch.data() + batch.size(), batch.size()),
            batch.size());
        // A plain write: two owners of one object would be a data race, too.
        for (void* object : batch) *static_cast<int*>(object) = t;
        mine.insert(mine.end(), batch.begin(), batch.end());
      } else {
        const std::size_t count = 1 + i % 250;
        for (std::size_t k = 0; k < count; ++k) {
          ASSERT_EQ(*static_cast<int*>(mine[mine.size() - 1 - k]), t);
        }
        list.release(mine.data() + mine.size() - count, count);
        mine.resize(mine.size() - count);
      }
    }
    list.release(mine.data(), mine.size());
  });
  list.check_invariants();
  EXPECT_EQ(list.statistics().claimed_objects, 0u);
  list.destroy_kept(~std::size_t{0});
  EXPECT_EQ(list.statistics().spans, 0u);
}

TEST_F(CentralListTest, WhatWasNotNeededForARoundIsDestroyed) {
  CentralList list = make(8);
  const std::size_t in_span = kPageBytes / SizeClassMap::bytes_of(8);
  const std::vector<void*> objects = claim(list, 4 * in_span);
  release(list, objects);
  EXPECT_EQ(list.destroy_unneeded(), 0u) << "they came a moment ago";
  release(list, claim(list, in_span));
  EXPECT_EQ(list.destroy_unneeded(), 3u) << "one was needed meanwhile";
  EXPECT_EQ(list.destroy_unneeded(), 1u);
  EXPECT_EQ(list.kept_spans(), 0u);
}

TEST_F(CentralListTest, ASpanMovesToAnotherShardWithItsLiveObjects) {
  CentralList from = make(9, 0);
  CentralList to = make(9, 1);
  const std::size_t in_span = kPageBytes / SizeClassMap::bytes_of(9);
  std::vector<void*> objects = claim(from, in_span);
  void* const live = objects.back();
  objects.pop_back();
  release(from, objects);
  void* taken[3];
  EXPECT_EQ(to.claim_from(from, CentralList::Which::kKept, taken + 3, 3), 0u) << "none is empty";
  ASSERT_EQ(to.claim_from(from, CentralList::Which::kEmptiest, taken + 3, 3), 3u);
  EXPECT_EQ(from.statistics().spans, 0u);
  EXPECT_EQ(from.statistics().claimed_objects, 0u);
  EXPECT_EQ(from.pending_bytes(), 0u);
  from.check_invariants();
  to.check_invariants();
  EXPECT_EQ(to.statistics().claimed_objects, 4u);
  std::vector<void*> batch{live, taken[0], taken[1], taken[2]};
  EXPECT_EQ(from.release(batch.data(), 4), 4u) << "they are the other list's";
  EXPECT_EQ(batch[0], live);
  EXPECT_EQ(to.release(batch.data(), 4), 0u);
  EXPECT_EQ(to.kept_spans(), 1u);
}

/// Two lists take spans from each other while the objects in them are freed. Whichever list has a
/// span takes its objects back.
TEST_F(CentralListTest, ObjectsComeBackWhileTheirSpansMove) {
  constexpr unsigned kClass = 20;
  CentralList first = make(kClass, 0);
  CentralList second = make(kClass, 1);
  CentralList* const lists[] = {&first, &second};
  {
    // Enough objects for both.
    std::vector<void*> objects = claim(first, 10 * (kPageBytes / SizeClassMap::bytes_of(kClass)));
    release(first, objects);
  }
  run_together(4, [&](int t) {
    CentralList& mine = *lists[t % 2];
    CentralList& other = *lists[1 - t % 2];
    for (std::size_t i = 0; i < 3000; ++i) {
      std::vector<void*> batch(1 + i % 20);
      std::size_t got = mine.claim_from(other, CentralList::Which::kEmptiest,
                                        batch.data() + batch.size(), batch.size());
      if (got == 0) got = mine.claim(batch.data() + batch.size(), batch.size());
      std::vector<void*> objects(batch.end() - static_cast<std::ptrdiff_t>(got), batch.end());
      for (void* object : objects) *static_cast<int*>(object) = t;
      std::size_t left = objects.size();
      for (unsigned turn = 0; left != 0; ++turn)
        left = lists[turn % 2]->release(objects.data(), left);
    }
  });
  first.check_invariants();
  second.check_invariants();
  EXPECT_EQ(first.statistics().claimed_objects + second.statistics().claimed_objects, 0u);
  EXPECT_EQ(first.statistics().spans + second.statistics().spans, 10u);
}

TEST_F(CentralListTest, ObjectsOfAnotherShardComeBackToTheCaller) {
  CentralList mine = make(4, 0);
  CentralList others = make(4, 1);
  std::vector<void*> batch = claim(mine, 10);
  const std::vector<void*> foreign = claim(others, 5);
  for (std::size_t i = 0; i < foreign.size(); ++i)
    batch.insert(batch.begin() + static_cast<std::ptrdiff_t>(3 * i), foreign[i]);
  ASSERT_EQ(mine.release(batch.data(), batch.size()), foreign.size());
  EXPECT_EQ(std::vector<void*>(batch.begin(), batch.begin() + 5), foreign);
  EXPECT_EQ(mine.statistics().claimed_objects, 0u);
  release(others, foreign);
}

TEST_F(CentralListTest, OfObjectsOfAnyClassItTakesItsOwn) {
  CentralList mine = make(4);
  CentralList others = make(5);
  for (const bool are_idle : {false, true}) {
    std::vector<void*> batch = claim(mine, 10);
    const std::vector<void*> foreign = claim(others, 5);
    for (std::size_t i = 0; i < foreign.size(); ++i)
      batch.insert(batch.begin() + static_cast<std::ptrdiff_t>(3 * i), foreign[i]);
    const auto classes = CentralList::Classes::kAny;
    ASSERT_EQ(are_idle ? mine.release_idle(batch.data(), batch.size(), classes)
                       : mine.release(batch.data(), batch.size(), classes),
              foreign.size());
    EXPECT_EQ(std::vector<void*>(batch.begin(), batch.begin() + 5), foreign);
    EXPECT_EQ(mine.statistics().claimed_objects, 0u);
    EXPECT_EQ(others.statistics().claimed_objects, 5u);
    mine.check_invariants();
    release(others, foreign);
  }
}

TEST_F(CentralListTest, TheTallyIsToldOfMuchAndNotOfEachBatch) {
  CentralList list = make(1);
  std::vector<void*> objects = claim(list, 100'000);
  const std::ptrdiff_t before = tally.said();
  release(list, objects.back());
  objects.pop_back();
  EXPECT_EQ(tally.said(), before);
  release(list, objects);
  const auto pending = static_cast<std::ptrdiff_t>(list.pending_bytes());
  EXPECT_NEAR(static_cast<double>(tally.said()), static_cast<double>(pending), 64.0 * 1024);
  list.tell_tally();
  EXPECT_EQ(tally.said(), pending);
}

}  // namespace
}  // namespace strata
