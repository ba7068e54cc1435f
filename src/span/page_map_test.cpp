#include "span/page_map.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "os/access_test.h"
#include "os/fake_page_source.h"
#include "os/page_source.h"
#include "span/fake_address_space.h"
#include "span/page.h"

namespace strata {
namespace {

const void* pointer(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

/// Addresses that no heap owns: the lowest and highest pointers, both halves of the address space,
/// powers of two and their neighbours.
std::vector<std::uintptr_t> strange_addresses(std::uintptr_t limit) {
  std::vector<std::uintptr_t> all = {0,
                                     1,
                                     8,
                                     15,
                                     16,
                                     4095,
                                     kPageBytes - 1,
                                     kPageBytes,
                                     UINTPTR_MAX,
                                     UINTPTR_MAX - 15,
                                     std::uintptr_t{0xffff'8000'0000'0000},
                                     limit - 16,
                                     limit - 1,
                                     limit,
                                     limit + 1,
                                     limit + 16};
  for (unsigned bit = 4; bit < 64; ++bit) {
    for (int offset : {-16, -1, 0, 1, 16}) {
      all.push_back((std::uintptr_t{1} << bit) + static_cast<std::uintptr_t>(offset));
    }
  }
  return all;
}

TEST(PageMap, SaysNotMineForAnyAddressBeforeItCoversAnything) {
  PageMap map;
  EXPECT_EQ(map.limit(), 0u);
  for (std::uintptr_t address : strange_addresses(kUserSpaceEnd)) {
    EXPECT_EQ(map.class_of(pointer(address)), 0u) << address;
    EXPECT_EQ(map.region_of(pointer(address)), nullptr) << address;
    EXPECT_EQ(map.span_of(pointer(address)), nullptr) << address;
  }
}

TEST(PageMap, KeepsItsTablesWhereOtherAddressesAreCoveredInstead) {
  os::FakePageSource pages;
  PageMap map;
  ASSERT_TRUE(map.cover(std::uintptr_t{1} << 40, pages));
  const std::size_t tables = map.reserved_bytes();
  map.uncover();
  EXPECT_EQ(map.limit(), 0u);
  EXPECT_EQ(pages.mapped_bytes(), tables) << "another thread may be looking into them";
  ASSERT_TRUE(map.cover(std::uintptr_t{1} << 36, pages));
  EXPECT_EQ(pages.mapped_bytes(), tables);
  for (std::uintptr_t address : strange_addresses(map.limit()))
    EXPECT_EQ(map.region_of(pointer(address)), nullptr) << address;
  map.uncover();
  ASSERT_TRUE(map.cover(std::uintptr_t{1} << 41, pages));
  EXPECT_EQ(pages.mapped_bytes(), tables + map.reserved_bytes());
  map.discard(pages);
  EXPECT_EQ(pages.mapped_bytes(), tables);
}

TEST(PageMap, SaysNotMineForAnyAddressWithoutASpan) {
  os::FakePageSource pages;
  FakeAddressSpace space(pages);
  Span* span = space.spans.create(1);
  ASSERT_NE(span, nullptr);
  for (std::uintptr_t address : strange_addresses(space.map.limit())) {
    EXPECT_EQ(space.map.class_of(pointer(address)), 0u) << address;
    EXPECT_EQ(space.map.region_of(pointer(address)), nullptr) << address;
    EXPECT_EQ(space.map.span_of(pointer(address)), nullptr) << address;
  }
  static int in_static_storage;
  int on_the_stack = 0;
  void* elsewhere = os::kernel_pages().map(kPageBytes);
  for (const void* p :
       {static_cast<const void*>(&in_static_storage), static_cast<const void*>(&on_the_stack),
        static_cast<const void*>(elsewhere)}) {
    EXPECT_EQ(space.map.class_of(p), 0u);
    EXPECT_EQ(space.map.region_of(p), nullptr);
  }
  os::kernel_pages().unmap(elsewhere, kPageBytes);
}

TEST(PageMap, ItsTablesLieBetweenPagesThatNobodyCanWrite) {
  os::FakePageSource pages;
  PageMap map;
  ASSERT_TRUE(map.cover(std::uintptr_t{1} << 36, pages));
  const std::size_t tables = pages.mapped_bytes();
  EXPECT_EQ(map.reserved_bytes(), tables);
  const char* const start = static_cast<const char*>(pages.first_mapped());
  EXPECT_EQ(os::access_at(start - 1), "r--p");
  EXPECT_EQ(os::access_at(start + tables), "r--p");
  map.discard(pages);
  EXPECT_EQ(pages.mapped_bytes(), 0u);
  EXPECT_EQ(os::access_at(start - 1), "");
}

TEST(PageMap, KnowsEveryAddressOfASmallSpanAndRefusesTheMisaligned) {
  os::FakePageSource pages;
  FakeAddressSpace space(pages);
  const unsigned size_class = SizeClassMap::kCount - 1;  // larger than a page
  Span* span = space.spans.create(size_class);
  ASSERT_NE(span, nullptr);
  ASSERT_GT(span->page_count, 1);
  for (std::size_t offset = 0; offset < span->bytes(); ++offset) {
    const char* p = span->start + offset;
    ASSERT_EQ(space.map.class_of(p), offset % 16 == 0 ? size_class : 0u) << offset;
  }
  for (std::size_t offset = 0; offset < span->bytes(); offset += 4096) {
    ASSERT_EQ(space.map.span_of(span->start + offset), span);
    ASSERT_EQ(space.map.region_of(span->start + offset), space.map.region_of(span->start));
  }
  EXPECT_EQ(space.map.class_of(span->start - 16), 0u);
  EXPECT_EQ(space.map.class_of(span->start + span->bytes()), 0u);
  EXPECT_EQ(space.map.span_of(span->start + span->bytes()), nullptr);
}

TEST(PageMap, ForgetsASpanThatIsDestroyed) {
  os::FakePageSource pages;
  FakeAddressSpace space(pages);
  Span* span = space.spans.create(1);
  const char* start = span->start;
  space.spans.destroy(*span);
  EXPECT_EQ(space.map.class_of(start), 0u);
  EXPECT_EQ(space.map.span_of(start), nullptr);
  EXPECT_NE(space.map.region_of(start), nullptr);
}

TEST(PageMap, EndsExactlyAtItsLimit) {
  PageMap map;
  os::FakePageSource pages;
  constexpr std::uintptr_t kLimit = 64 * kRegionBytes;
  ASSERT_TRUE(map.cover(kLimit, pages));
  EXPECT_EQ(map.limit(), kLimit);
  EXPECT_FALSE(map.open(pointer(kLimit - kRegionBytes), 2 * kRegionBytes));
  ASSERT_TRUE(map.open(pointer(kLimit - kRegionBytes), kRegionBytes));
  auto* region = reinterpret_cast<Region*>(&map);  // any pointer will do
  map.set_region(pointer(kLimit - kRegionBytes), region);
  EXPECT_EQ(map.region_of(pointer(kLimit - kRegionBytes)), region);
  EXPECT_EQ(map.region_of(pointer(kLimit - 1)), region);
  EXPECT_EQ(map.region_of(pointer(kLimit)), nullptr);
  EXPECT_EQ(map.region_of(pointer(kLimit - kRegionBytes - 1)), nullptr);
  Span span{};
  span.start = reinterpret_cast<char*>(kLimit - kPageBytes);
  span.page_count = 1;
  map.set_class(span, 7);
  EXPECT_EQ(map.class_of(pointer(kLimit - 16)), 7u);
  EXPECT_EQ(map.class_of(pointer(kLimit - kPageBytes)), 7u);
  EXPECT_EQ(map.class_of(pointer(kLimit - kPageBytes - 16)), 0u);
  map.discard(pages);
  EXPECT_EQ(map.class_of(pointer(kLimit - 16)), 0u);
  EXPECT_EQ(pages.mapped_bytes(), 0u);
}

TEST(PageMap, IsWritableForTheAddressesThatWereOpenedOnly) {
  PageMap map;
  os::FakePageSource pages;
  constexpr std::uintptr_t kFar = std::uintptr_t{1} << 40;
  ASSERT_TRUE(map.cover(2 * kFar, pages));
  pages.refuse_call(1);
  EXPECT_FALSE(map.open(pointer(kFar), kRegionBytes));
  pages.refuse_call(2);
  EXPECT_FALSE(map.open(pointer(kFar), kRegionBytes));
  pages.refuse_nothing();
  ASSERT_TRUE(map.open(pointer(kFar), 3 * kRegionBytes));
  auto* region = reinterpret_cast<Region*>(&map);
  for (int i = 0; i < 3; ++i) map.set_region(pointer(kFar + i * kRegionBytes), region);
  EXPECT_EQ(map.region_of(pointer(kFar + 3 * kRegionBytes - 1)), region);
  EXPECT_EQ(map.region_of(pointer(kFar + 3 * kRegionBytes)), nullptr);
  EXPECT_DEATH(map.set_region(pointer(kFar / 2), region), "");
  map.discard(pages);
}

TEST(PageMap, OpensWhatLiesBetweenAddressesThatWereOpenedApart) {
  PageMap map;
  os::FakePageSource pages;
  constexpr std::uintptr_t kFar = std::uintptr_t{1} << 40;
  ASSERT_TRUE(map.cover(4 * kFar, pages));
  for (const std::uintptr_t address : {kFar, 3 * kFar, 2 * kFar}) {
    ASSERT_TRUE(map.open(pointer(address), kRegionBytes));
    auto* region = reinterpret_cast<Region*>(&map);
    map.set_region(pointer(address), region);
    EXPECT_EQ(map.region_of(pointer(address)), region);
  }
  map.discard(pages);
}

TEST(PageMap, KeepsNothingWhenItsTablesAreRefusedAndCoversLater) {
  PageMap map;
  os::FakePageSource pages;
  pages.refuse_call(1);
  EXPECT_FALSE(map.cover(64 * kRegionBytes, pages));
  EXPECT_EQ(map.limit(), 0u);
  EXPECT_EQ(pages.mapped_bytes(), 0u);
  EXPECT_TRUE(map.cover(64 * kRegionBytes, pages));
  map.discard(pages);
  map.discard(pages);  // nothing to do
  EXPECT_EQ(pages.mapped_bytes(), 0u);
}

}  // namespace
}  // namespace strata
