#include "base/address_table.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

/// As large as the entry of a huge block.
struct Extent {
  std::size_t bytes;
  std::size_t asked;
};

const void* address_of(std::size_t i) {
  return reinterpret_cast<const void*>((std::uintptr_t{1} << 40) + i * 0x101000);
}

/// With so many huge blocks, of at least a MiB each, the table is larger than 32 MiB.
TEST(AddressTable, GrowsAsLongAsThereIsMemory) {
  constexpr std::size_t kCount = (std::size_t{1} << 19) + 1;
  os::FakePageSource pages;
  MetadataArena metadata(pages);
  AddressTable<Extent> table(metadata);
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_TRUE(table.insert(address_of(i), {i, i})) << "the " << i << "th";
  EXPECT_EQ(table.size(), kCount);
  table.check_invariants();
  for (std::size_t i = 0; i < kCount; ++i) {
    const Extent* const found = table.find(address_of(i));
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(found->bytes, i);
  }
  Extent removed{};
  EXPECT_TRUE(table.remove(address_of(kCount - 1), removed));
  EXPECT_EQ(removed.bytes, kCount - 1);
  EXPECT_EQ(table.find(address_of(kCount - 1)), nullptr);
}

TEST(AddressTable, StaysAsItIsWhenOutOfMemory) {
  os::FakePageSource pages;
  MetadataArena metadata(pages);
  AddressTable<Extent> table(metadata);
  std::size_t count = 0;
  for (; count < 1000; ++count) ASSERT_TRUE(table.insert(address_of(count), {count, count}));
  pages.refuse_from_call(1);
  while (table.insert(address_of(count), {count, count})) ++count;
  EXPECT_EQ(table.size(), count);
  table.check_invariants();
  pages.refuse_nothing();
  EXPECT_TRUE(table.insert(address_of(count), {count, count}));
  EXPECT_EQ(table.find(address_of(0))->bytes, 0u);
}

}  // namespace
}  // namespace strata
