#include "guard/checked_objects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/seeded_test.h"
#include "central/central.h"
#include "guard/allocation.h"
#include "guard/pattern.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

// --- what is said of an object ---------------------------------------------------------------

std::string sentence_of(const FreeCall& call, const Allocation& allocation) {
  TextWriter sentence;
  const bool is_wrong =
      contradicts(call, allocation, reinterpret_cast<const void*>(0x1000), sentence);
  EXPECT_EQ(is_wrong, !sentence.view().empty());
  return std::string(sentence.view());
}

TEST(Contradiction, WhatWasAskedForMayBeSaidAgain) {
  using By = FreeCall::By;
  const Allocation plain{100, 0, false};
  const Allocation aligned{100, 64, false};
  const Allocation by_aligned_new{100, 64, true};
  EXPECT_EQ(sentence_of({By::kFree}, plain), "");
  EXPECT_EQ(sentence_of({By::kDelete}, plain), "");
  EXPECT_EQ(sentence_of({By::kDelete, 100}, plain), "");
  EXPECT_EQ(sentence_of({By::kFree, 100}, plain), "");
  EXPECT_EQ(sentence_of({By::kFree}, aligned), "");
  EXPECT_EQ(sentence_of({By::kFree, 100, 64}, aligned), "");
  EXPECT_EQ(sentence_of({By::kDelete, 100, 64}, aligned), "") << "a runtime of its own";
  EXPECT_EQ(sentence_of({By::kDelete, 100, 8}, plain), "") << "a runtime of its own";
  EXPECT_EQ(sentence_of({By::kDelete, FreeCall::kUnsaid, 64}, by_aligned_new), "");
  EXPECT_EQ(sentence_of({By::kDelete, 100, 64}, by_aligned_new), "");
  EXPECT_EQ(sentence_of({By::kFree}, by_aligned_new), "") << "a runtime of its own";
}

TEST(Contradiction, NamesBothSizes) {
  using By = FreeCall::By;
  const Allocation plain{100, 0, false};
  EXPECT_EQ(sentence_of({By::kDelete, 96}, plain),
            "mismatched sized delete of 0x1000: it was allocated with 100 bytes and freed with 96");
  EXPECT_EQ(sentence_of({By::kFree, 101}, plain),
            "mismatched free_sized of 0x1000: it was allocated with 100 bytes and freed with 101");
  EXPECT_EQ(sentence_of({By::kFree, 99, 64}, {100, 64, false}),
            "mismatched free_aligned_sized of 0x1000: it was allocated with 100 bytes and freed "
            "with 99");
}

TEST(Contradiction, NamesHowItWasAllocated) {
  using By = FreeCall::By;
  using Maker = Allocation::By;
  const Allocation by_malloc{100, 0, false};
  const Allocation by_new{100, 0, false, Maker::kNew};
  const Allocation by_new_array{100, 0, false, Maker::kNewArray};
  EXPECT_EQ(sentence_of({By::kDelete}, by_new), "");
  EXPECT_EQ(sentence_of({By::kDeleteArray}, by_new_array), "");
  EXPECT_EQ(sentence_of({By::kDeleteAny}, by_new_array), "");
  EXPECT_EQ(sentence_of({By::kDelete}, by_new_array),
            "mismatched delete of 0x1000: it was allocated by new[]");
  EXPECT_EQ(sentence_of({By::kDeleteArray}, by_new),
            "mismatched delete[] of 0x1000: it was allocated by new");
  EXPECT_EQ(sentence_of({By::kFree}, by_new), "") << "a runtime of its own";
  EXPECT_EQ(sentence_of({By::kDeleteArray}, by_malloc), "") << "a runtime of its own";
  FreeCall call{By::kFree};
  call.keeps_to_its_kind = true;
  EXPECT_EQ(sentence_of(call, by_malloc), "");
  EXPECT_EQ(sentence_of(call, by_new), "mismatched free of 0x1000: it was allocated by new");
  call.by = By::kDelete;
  EXPECT_EQ(sentence_of(call, by_malloc),
            "mismatched delete of 0x1000: it was allocated by malloc");
  call.by = By::kDeleteAny;
  EXPECT_EQ(sentence_of(call, by_new_array), "");
}

TEST(Contradiction, NamesBothAlignments) {
  using By = FreeCall::By;
  constexpr std::size_t kUnsaid = FreeCall::kUnsaid;
  EXPECT_EQ(sentence_of({By::kDelete, kUnsaid, 32}, {100, 64, true}),
            "mismatched aligned delete of 0x1000: it was allocated with alignment 64 and freed "
            "with alignment 32");
  EXPECT_EQ(sentence_of({By::kDelete}, {100, 64, true}),
            "mismatched aligned delete of 0x1000: it was allocated with alignment 64 and freed "
            "without an alignment");
  EXPECT_EQ(sentence_of({By::kDelete, kUnsaid, 64}, {100, 0, false}),
            "mismatched aligned delete of 0x1000: it was allocated without an alignment and freed "
            "with alignment 64");
  EXPECT_EQ(sentence_of({By::kFree, 100, 128}, {100, 64, false}),
            "mismatched free_aligned_sized of 0x1000: it was allocated with alignment 64 and freed "
            "with alignment 128");
}

TEST(Pattern, FindsTheFirstByteThatChanged) {
  for (std::size_t bytes = 0; bytes < 40; ++bytes) {
    std::vector<char> memory(bytes + 1, static_cast<char>(kFreedByte));
    EXPECT_EQ(find_change(memory.data(), bytes, kFreedByte), bytes);
    for (std::size_t i = bytes; i-- > 0;) {
      memory[i] = 1;
      EXPECT_EQ(find_change(memory.data(), bytes, kFreedByte), i);
    }
  }
}

// --- small objects ---------------------------------------------------------------------------

struct CheckedObjectsTest : SeededTest {
  CheckedObjectsTest() {
    space.spans.keep_records();
    EXPECT_TRUE(objects.start(random()));
  }

  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  Central central{space.spans, space.metadata};
  CheckedObjects objects{central, space.map, space.metadata};

  char* get(std::size_t bytes, unsigned size_class) {
    void* p = FreeObject(objects.allocate(size_class, {bytes, 0, false})).address();
    EXPECT_NE(p, nullptr);
    return static_cast<char*>(p);
  }
  void put(void* p, unsigned size_class) { objects.deallocate(size_class, p, {}); }

  /// Two neighbours, the lower one first.
  std::pair<char*, char*> get_neighbours(std::size_t bytes, unsigned size_class) {
    std::set<char*> all;
    for (;;) {
      char* p = get(bytes, size_class);
      const std::size_t step = SizeClassMap::bytes_of(size_class);
      if (all.count(p - step) != 0) return {p - step, p};
      if (all.count(p + step) != 0) return {p, p + step};
      all.insert(p);
    }
  }

  /// Only one neighbour of such an object belongs to its span.
  bool is_at_an_end_of_its_span(const char* p) const {
    const Span& span = *space.map.span_of(p);
    const std::uint32_t index = span.index_of(p);
    return index == 0 || index + 1 == span.object_count;
  }

  const unsigned c = SizeClassMap::class_of(116);  // 128 bytes
};

TEST_F(CheckedObjectsTest, GivesEverythingBackWhenTheQuarantineIsFlushed) {
  std::vector<std::pair<void*, unsigned>> live;
  for (int step = 0; step < 20'000; ++step) {
    if (live.size() < 400 && below(5) < 3) {
      const auto size_class = static_cast<unsigned>(2 + below(SizeClassMap::kCount - 2));
      const std::size_t most = SizeClassMap::bytes_of(size_class) - CheckedObjects::kLeastSlack;
      const std::size_t bytes = below(most + 1);
      char* p = get(bytes, size_class);
      std::memset(p, static_cast<int>(step), bytes);
      ASSERT_EQ(objects.requested_bytes(size_class, p, "realloc"), bytes);
      live.emplace_back(p, size_class);
    } else if (!live.empty()) {
      std::swap(live[below(live.size())], live.back());
      put(live.back().first, live.back().second);
      live.pop_back();
    }
    if (step % 500 == 0) central.check_invariants();
  }
  for (const auto& [p, size_class] : live) put(p, size_class);
  EXPECT_NE(space.heap.statistics().used_pages, 0u) << "something waits";
  EXPECT_TRUE(objects.flush_quarantine());
  EXPECT_FALSE(objects.flush_quarantine());
  central.release_all();
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

TEST_F(CheckedObjectsTest, NothingWaitsBeforeTheStart) {
  CheckedObjects fresh{central, space.map, space.metadata};
  EXPECT_FALSE(fresh.flush_quarantine());
  EXPECT_EQ(fresh.quarantined_objects(c), 0u);
  fresh.forget_objects();
  EXPECT_TRUE(fresh.start(1));
  EXPECT_TRUE(fresh.start(1));
  EXPECT_FALSE(fresh.flush_quarantine());
}

TEST_F(CheckedObjectsTest, AFreedObjectWaitsBeforeItIsUsedAgain) {
  char* freed = get(100, c);
  put(freed, c);
  EXPECT_EQ(objects.quarantined_objects(c), 1u);
  for (int i = 0; i < 200; ++i) {
    char* p = get(100, c);
    EXPECT_NE(p, freed);
    put(p, c);
  }
}

TEST_F(CheckedObjectsTest, PlacesObjectsAnywhere) {
  std::set<std::ptrdiff_t> distances;
  char* last = get(100, c);
  for (int i = 0; i < 64; ++i) {
    char* p = get(100, c);
    distances.insert(p - last);
    last = p;
  }
  EXPECT_GT(distances.size(), 10u) << "one after the other, it is one or two";
}

TEST_F(CheckedObjectsTest, FillsWhatIsFreedAndWhatLiesBehind) {
  char* p = get(100, c);
  EXPECT_EQ(find_change(p + 100, 28, kSlackByte), 28u);
  std::memset(p, 1, 100);
  put(p, c);
  EXPECT_EQ(find_change(p, 128, kFreedByte), 128u);
}

TEST_F(CheckedObjectsTest, IsNullWhenOutOfMemoryAndWorksOn) {
  pages.refuse_from_call(1);
  EXPECT_EQ(objects.allocate(c, {100, 0, false}), nullptr);
  pages.refuse_nothing();
  char* p = get(100, c);
  put(p, c);
  objects.flush_quarantine();
  central.release_all();
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

using CheckedObjectsDeathTest = CheckedObjectsTest;

TEST_F(CheckedObjectsDeathTest, DiesOfAnOverflowWhenTheObjectIsFreed) {
  for (const std::size_t offset : {100, 101, 115, 127}) {
    char* p = get(100, c);
    p[offset] = 1;
    EXPECT_DEATH(put(p, c), "overflow of 0x[0-9a-f]+: the program wrote at offset " +
                                std::to_string(offset) + " of this object of 100 bytes");
  }
}

TEST_F(CheckedObjectsDeathTest, DiesOfAnUnderflowWhenTheObjectIsFreed) {
  const auto [lower, upper] = get_neighbours(100, c);
  upper[-3] = 1;
  EXPECT_DEATH(put(upper, c),
               "underflow of 0x[0-9a-f]+: the program wrote at offset -3 of this object of 100");
  upper[-3] = static_cast<char>(kSlackByte);
  lower[100] = 1;
  EXPECT_DEATH(put(upper, c),
               " overflow of 0x[0-9a-f]+: the program wrote at offset 100 of this object of 100");
  lower[100] = static_cast<char>(kSlackByte);
  put(lower, c);
  upper[-3] = 1;
  EXPECT_DEATH(put(upper, c),
               "underflow of .*: the program wrote at offset -3 of this object of 100")
      << "behind the end of the freed one";
  upper[-3] = static_cast<char>(kFreedByte);
  upper[-29] = 1;
  EXPECT_DEATH(put(upper, c),
               "use after free of .*: the program wrote at offset 99 of this object");
}

TEST_F(CheckedObjectsDeathTest, DiesOfWhatIsWrittenBesideTheOnlyObjectOfASpan) {
  char* p = get(100, c);
  while (is_at_an_end_of_its_span(p)) {
    put(p, c);
    objects.flush_quarantine();
    central.release_all();  // The next object comes from a new span, at a place chosen at random.
    p = get(100, c);
  }
  p[-64] = 1;
  EXPECT_DEATH(put(p, c), "underflow of .*: the program wrote at offset -64 of this object of 100");
  p[-64] = static_cast<char>(kFreedByte);
  p[128 + 63] = 1;
  EXPECT_DEATH(put(p, c), "overflow of .*: the program wrote at offset 191 of this object of 100");
}

TEST_F(CheckedObjectsDeathTest, DiesOfWhatIsFoundInTheEnd) {
  char* p = get(100, c);
  char* q = get(100, c);
  objects.verify_all(space.heap);
  p[100] = 1;
  EXPECT_DEATH(objects.verify_all(space.heap), " overflow of .* at offset 100 of this object");
  // Mends p before q is freed: the free checks p if the two are neighbours.
  p[100] = static_cast<char>(kSlackByte);
  put(q, c);
  q[50] = 1;
  EXPECT_DEATH(objects.verify_all(space.heap), "use after free of .* at offset 50 of this object");
}

TEST_F(CheckedObjectsTest, ReadsAsZeroWhereItsEdgesWereWatched) {
  const unsigned large = SizeClassMap::class_of(20'000);
  for (int i = 0; i < 3; ++i) {
    const FreeObject object(objects.allocate(large, {10'000, 0, false}));
    ASSERT_TRUE(object.is_fresh());
    const char* p = static_cast<char*>(object.address());
    const std::size_t bytes = SizeClassMap::bytes_of(large);
    EXPECT_EQ(std::count(p, p + 10'000, 0), 10'000);
    EXPECT_EQ(p[bytes - 1], static_cast<char>(kSlackByte));
  }
}

TEST_F(CheckedObjectsDeathTest, DiesOfAWriteAfterFreeWhenTheQuarantineEnds) {
  char* p = get(100, c);
  put(p, c);
  p[41] = 0;
  EXPECT_DEATH(
      objects.flush_quarantine(),
      "use after free of 0x[0-9a-f]+: the program wrote at offset 41 of this object of 100");
}

TEST_F(CheckedObjectsDeathTest, DiesOfAWriteAfterFreeWhenThePlaceIsUsedAgain) {
  char* p = get(100, c);
  get(100, c);  // keeps the span
  put(p, c);
  objects.flush_quarantine();
  p[7] = 0;
  EXPECT_DEATH(
      for (;;) get(100, c),
      "use after free of 0x[0-9a-f]+: the program wrote at offset 7 of this object of 100");
}

TEST_F(CheckedObjectsDeathTest, DiesOfADoubleFreeWhereverTheFirstCopyIs) {
  char* p = get(100, c);
  get(100, c);
  put(p, c);
  EXPECT_DEATH(put(p, c), "double free of 0x[0-9a-f]+: the object is free already");
  objects.flush_quarantine();
  EXPECT_DEATH(put(p, c), "double free of 0x[0-9a-f]+: the object is free already");
  EXPECT_DEATH(objects.requested_bytes(c, p, "realloc"),
               "invalid realloc of 0x[0-9a-f]+: the object is free");
  EXPECT_DEATH(put(p + 16, c), "invalid free of 0x[0-9a-f]+: it points into an object");
}

TEST_F(CheckedObjectsDeathTest, DiesOfAContradiction) {
  void* p = objects.allocate(c, {100, 64, true});
  EXPECT_DEATH(objects.deallocate(c, p, {FreeCall::By::kDelete, 90, 64}),
               "mismatched sized delete of .* with 100 bytes and freed with 90");
  EXPECT_DEATH(objects.deallocate(c, p, {FreeCall::By::kDelete, 100}),
               "mismatched aligned delete of .* with alignment 64 and freed without");
}

}  // namespace
}  // namespace strata
