#include "span/span_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

std::size_t free_bit_count(const Span& span) {
  std::size_t count = 0;
  for (std::size_t w = 0; w < span.bitmap_words(); ++w)
    count += static_cast<std::size_t>(std::popcount(span.free_bits[w]));
  return count;
}

struct SpanSourceTest : ::testing::Test {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
};

TEST(SpanTest, WhatAnObjectThatComesBackIsLookedUpByIsInOneLineOfMemory) {
  const Span span{};
  const auto offset = [&span](const void* member) {
    return static_cast<const char*>(member) - reinterpret_cast<const char*>(&span);
  };
  for (const void* const end :
       {static_cast<const void*>(&span.shard + 1), static_cast<const void*>(&span.use + 1),
        static_cast<const void*>(&span.start + 1), static_cast<const void*>(&span.free_bits + 1),
        static_cast<const void*>(&span.object_count + 1),
        static_cast<const void*>(&span.free_count + 1),
        static_cast<const void*>(&span.relist_at + 1),
        static_cast<const void*>(&span.first_word + 1)}) {
    EXPECT_LE(offset(end), 64);
  }
}

TEST_F(SpanSourceTest, EverySpanHoldsAsManyObjectsAsFitAndAllOfThemAreFree) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    Span* span = space.spans.create(c);
    ASSERT_NE(span, nullptr);
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    EXPECT_EQ(span->size_class, c);
    EXPECT_EQ(span->object_bytes, bytes);
    EXPECT_EQ(span->object_count, span->bytes() / bytes);
    EXPECT_EQ(span->free_count, span->object_count);
    EXPECT_EQ(free_bit_count(*span), span->object_count);
    EXPECT_GE(span->object_count, bytes <= 128 * 1024 ? 8u : 4u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(span->start) % kPageBytes, 0u);
    EXPECT_EQ(space.map.class_of(span->start), c);
  }
  space.heap.check_invariants();
}

TEST_F(SpanSourceTest, NoClassAbove8KiBWastesMoreThanAnEighthInTheMean) {
  for (unsigned c = SizeClassMap::class_of(8193); c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    const std::size_t of_span = span_pages_of(c) * kPageBytes;
    const std::size_t mean_request = (SizeClassMap::bytes_of(c - 1) + 1 + bytes) / 2;
    // The tail of the span is waste, too.
    EXPECT_LE(8 * (of_span - of_span / bytes * mean_request), of_span) << bytes;
  }
}

TEST_F(SpanSourceTest, WithoutASeedEachSpanBeginsWithItsFirstObject) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c)
    EXPECT_EQ(space.spans.create(c)->first_object, 0u);
}

TEST_F(SpanSourceTest, ASeedChoosesTheObjectThatASpanBeginsWith) {
  space.spans.set_seed(1);
  const std::size_t os_page = os::page_bytes();
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    std::set<std::size_t> chosen;
    for (int i = 0; i < 200; ++i) {
      Span* const span = space.spans.create(c);
      ASSERT_NE(span, nullptr);
      ASSERT_LT(span->first_object, span->object_count);
      EXPECT_EQ(span->first_word, span->first_object / 64u);
      const std::size_t offset = span->first_object * std::size_t{span->object_bytes};
      if (span->object_bytes < os_page && span->first_object + 1u != span->object_count) {
        EXPECT_LT(offset % os_page, span->object_bytes) << "no object before it on its OS page";
      }
      chosen.insert(span->first_object);
      space.spans.destroy(*span);
    }
    const std::size_t span_bytes = span_pages_of(c) * kPageBytes;
    EXPECT_GE(chosen.size(), std::min({span_bytes / os_page, span_bytes / SizeClassMap::bytes_of(c),
                                       std::size_t{8}}))
        << c;
  }
}

TEST_F(SpanSourceTest, FindsTheIndexOfEveryObjectAndOfNothingElse) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    Span* span = space.spans.create(c);
    const std::size_t bytes = span->object_bytes;
    for (std::size_t offset = 0; offset < span->bytes(); ++offset) {
      const std::size_t expected = offset % bytes == 0 && offset / bytes < span->object_count
                                       ? offset / bytes
                                       : span->object_count;
      ASSERT_EQ(span->index_of(span->start + offset), expected) << "class " << c << ", " << offset;
    }
    space.spans.destroy(*span);
  }
}

TEST_F(SpanSourceTest, KnowsWhereObjectsStartInSpansOfOnePageWithoutALookAtThem) {
  for (unsigned c = 1; c < kOnePageClasses; ++c) {
    Span* span = space.spans.create(c);
    for (std::size_t offset = 0; offset < kPageBytes; ++offset) {
      const char* const p = span->start + offset;
      ASSERT_EQ(OnePageObjects::starts_at(p, c), span->index_of(p) != span->object_count)
          << "class " << c << ", " << offset;
    }
    space.spans.destroy(*span);
  }
}

bool take_fresh(Span& span, char* object) {
  const FreeObject taken(span.take_fresh(object));
  EXPECT_EQ(taken.address(), object);
  return taken.is_fresh();
}

TEST_F(SpanSourceTest, AnObjectIsFreshOnceAndOnlyInPagesThatNobodyUsed) {
  const unsigned c = SizeClassMap::class_of(8192);
  Span* span = space.spans.create(c);
  for (std::uint32_t i = 0; i < span->object_count; ++i) {
    char* object = span->start + std::size_t{i} * span->object_bytes;
    EXPECT_TRUE(take_fresh(*span, object)) << i;
    EXPECT_FALSE(take_fresh(*span, object)) << i;
  }
  space.spans.destroy(*span);
  // The same pages again, since the page heap prefers pages that hold memory.
  span = space.spans.create(c);
  EXPECT_FALSE(take_fresh(*span, span->start));
  space.spans.destroy(*span);
  space.heap.decommit(~std::size_t{0});
  span = space.spans.create(c);
  EXPECT_TRUE(take_fresh(*span, span->start)) << "the kernel cleared the pages meanwhile";
  space.spans.destroy(*span);
}

TEST_F(SpanSourceTest, GivesEverythingBackWhenASpanIsDestroyed) {
  std::vector<Span*> spans;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) spans.push_back(space.spans.create(c));
  const std::size_t bookkeeping = space.metadata.mapped_bytes();
  for (int round = 0; round < 100; ++round) {
    for (Span*& span : spans) {
      const unsigned c = span->size_class;
      space.spans.destroy(*span);
      span = space.spans.create(c);
    }
  }
  EXPECT_EQ(space.metadata.mapped_bytes(), bookkeeping);
  for (Span* span : spans) space.spans.destroy(*span);
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
  space.heap.check_invariants();
}

TEST_F(SpanSourceTest, RecordsOfTinyObjectsAreNoMemoryOnceTheirSpanIsGone) {
  space.spans.keep_records();
  Span* const span = space.spans.create(SizeClassMap::class_of(32));
  ASSERT_NE(span, nullptr);
  const std::size_t record_bytes = span->object_count * sizeof(*span->records);
  space.spans.destroy(*span);
  if (record_bytes <= 2 * os::page_bytes())
    GTEST_SKIP() << "records are no longer than their edges";
  EXPECT_GE(pages.decommitted_bytes() + 2 * os::page_bytes(), record_bytes);
}

TEST_F(SpanSourceTest, IsNullWhenOutOfMemoryAndLosesNoPage) {
  for (std::size_t n = 1;; ++n) {
    os::FakePageSource refusing;
    FakeAddressSpace other(refusing);
    refusing.refuse_from_call(n);
    std::vector<Span*> spans;
    bool was_refused = false;
    for (unsigned i = 0; i < 1500; ++i) {
      Span* span = other.spans.create(1 + i % (SizeClassMap::kCount - 1));
      if (span == nullptr) {
        was_refused = true;
        break;
      }
      spans.push_back(span);
    }
    other.heap.check_invariants();
    std::size_t used = 0;
    for (Span* span : spans) used += span->page_count;
    ASSERT_EQ(other.heap.statistics().used_pages, used);
    refusing.refuse_nothing();
    Span* span = other.spans.create(1);
    ASSERT_NE(span, nullptr);
    other.spans.destroy(*span);
    for (Span* each : spans) other.spans.destroy(*each);
    ASSERT_EQ(other.heap.statistics().used_pages, 0u);
    if (!was_refused) {
      EXPECT_GT(n, 3u);
      break;
    }
  }
}

}  // namespace
}  // namespace strata
