#include "base/shared_address_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "base/seeded_test.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

class SharedAddressTableTest : public SeededTest {
 protected:
  bool has(void* p) {
    std::size_t value;
    return table.find(p, value);
  }

  os::FakePageSource pages;
  MetadataArena metadata{pages};
  SharedAddressTable<std::size_t> table{metadata, LockRank::kBlockRecords};
};

void* pointer(std::uintptr_t page) { return reinterpret_cast<void*>((page + 1) << 12); }

TEST_F(SharedAddressTableTest, WhatIsNotThereIsNotFound) {
  std::size_t value = 0;
  EXPECT_FALSE(has(pointer(1)));
  EXPECT_FALSE(table.remove(pointer(1), value));
  ASSERT_TRUE(table.insert(pointer(1), 10));
  EXPECT_FALSE(has(pointer(2)));
  EXPECT_FALSE(has(nullptr));
  EXPECT_FALSE(table.remove(pointer(2), value));
  EXPECT_TRUE(table.find(pointer(1), value));
  EXPECT_EQ(value, 10u);
  value = 0;
  EXPECT_TRUE(table.remove(pointer(1), value));
  EXPECT_EQ(value, 10u);
  EXPECT_FALSE(has(pointer(1)));
}

TEST_F(SharedAddressTableTest, OutOfMemoryIsSaidAndChangesNothing) {
  pages.limit_mapped_bytes(0);
  EXPECT_FALSE(table.insert(pointer(1), 10));
  EXPECT_EQ(table.size(), 0u);
  table.check_invariants();
  pages.limit_mapped_bytes(SIZE_MAX);
  EXPECT_TRUE(table.insert(pointer(1), 10));
}

TEST_F(SharedAddressTableTest, LosesNothingWhenItCannotGrow) {
  pages.refuse_from_call(2);
  std::uintptr_t inserted = 0;
  while (table.insert(pointer(inserted), inserted)) ++inserted;
  ASSERT_GT(inserted, 0u);
  table.check_invariants();
  for (std::uintptr_t i = 0; i < inserted; ++i) {
    std::size_t value = 0;
    ASSERT_TRUE(table.find(pointer(i), value));
    ASSERT_EQ(value, i);
  }
}

TEST_F(SharedAddressTableTest, AgreesWithAModelWhileItGrowsAndAddressesComeAndGo) {
  std::map<std::uintptr_t, std::size_t> model;
  std::size_t value = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::uintptr_t page = below(step < 10'000 ? 600 : 4000);
    const auto known = model.find(page);
    ASSERT_EQ(has(pointer(page)), known != model.end());
    if (known == model.end()) {
      value = below(1 << 20);
      ASSERT_TRUE(table.insert(pointer(page), value));
      model[page] = value;
    } else {
      ASSERT_TRUE(table.remove(pointer(page), value));
      ASSERT_EQ(value, known->second);
      model.erase(known);
    }
    ASSERT_EQ(table.size(), model.size());
    if (step % 64 == 0) table.check_invariants();
  }
  for (const auto& [page, expected] : model) {
    ASSERT_TRUE(table.remove(pointer(page), value));
    ASSERT_EQ(value, expected);
  }
  table.check_invariants();
}

}  // namespace
}  // namespace strata
