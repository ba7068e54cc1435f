#include "heap/arena_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>

#include "base/seeded_test.h"
#include "heap/heap_support_test.h"

namespace strata {
namespace {

constexpr std::size_t kLeastBytes = 1 << 16;

/// A set of arenas that are aligned to `alignment`.
struct Table {
  explicit Table(std::size_t alignment = kLeastBytes) : set(alignment - 1) {
    set.adopt_table(places.get());
  }
  std::size_t empty_places() const {
    return static_cast<std::size_t>(
        std::count_if(places.get(), places.get() + ArenaSet::kPlaces,
                      [](const ArenaSet::Place& place) { return place.load() == 0; }));
  }
  std::unique_ptr<ArenaSet::Place[]> places{new ArenaSet::Place[ArenaSet::kPlaces]()};
  ArenaSet set;
};

TEST(ArenaSet, AgreesWithAModel) {
  Table table(1 << 26);
  std::mt19937_64 random(seed_of_this_run());
  std::set<std::uintptr_t> model;
  for (int step = 0; step < 20'000; ++step) {
    const std::uintptr_t arena = (1 + random() % 500) << 26;
    if (model.count(arena) != 0) {
      table.set.erase(arena);
      model.erase(arena);
    } else {
      ASSERT_TRUE(table.set.insert(arena, 1 << 26));
      model.insert(arena);
    }
    ASSERT_EQ(table.set.size(), model.size());
    const std::uintptr_t asked = (1 + random() % 500) << 26;
    ASSERT_EQ(table.set.contains(asked), model.count(asked) != 0);
  }
  for (std::uintptr_t i = 1; i <= 500; ++i) {
    ASSERT_EQ(table.set.contains(i << 26), model.count(i << 26) != 0);
  }
}

TEST(ArenaSet, SearchesStayShortHoweverManyArenasComeAndGo) {
  Table table;
  for (std::uintptr_t i = 1; i <= 4 * ArenaSet::kPlaces; ++i) {
    ASSERT_TRUE(table.set.insert(i << 16, kLeastBytes));
    if (i > 10) table.set.erase((i - 10) << 16);
  }
  EXPECT_GE(table.empty_places(), ArenaSet::kPlaces - 20);
}

TEST(ArenaSet, TheLowestAddressesAreInNoArena) {
  Table table;
  EXPECT_FALSE(table.set.contains(0));
  ASSERT_TRUE(table.set.insert(1 << 26, kLeastBytes));
  EXPECT_FALSE(table.set.contains(0));
}

TEST(ArenaSet, HasEachAddressOfAnArenaAndNoneBehindIt) {
  constexpr std::uintptr_t kSlot = 1 << 20;
  for (std::uintptr_t bytes = kLeastBytes; bytes <= kSlot; bytes += ArenaSet::kUnitBytes) {
    Table table(kSlot);
    ASSERT_TRUE(table.set.insert(7 * kSlot, bytes));
    for (std::uintptr_t offset : {std::uintptr_t{0}, bytes / 2, bytes - 1, bytes, kSlot - 1}) {
      ASSERT_EQ(table.set.contains(7 * kSlot + offset), offset < bytes) << bytes;
    }
    ASSERT_FALSE(table.set.contains(7 * kSlot - 1));
    ASSERT_FALSE(table.set.contains(8 * kSlot));
    table.set.erase(7 * kSlot);
    ASSERT_FALSE(table.set.contains(7 * kSlot));
    ASSERT_FALSE(table.set.contains(bytes)) << "an erased place is no arena";
  }
}

TEST(ArenaSet, IsFullAtItsNumberOfArenasAndTakesAnotherWhenOneGoes) {
  Table table;
  for (std::uintptr_t i = 1; i <= ArenaSet::kMaxArenas; ++i) {
    ASSERT_TRUE(table.set.insert(i << 16, kLeastBytes));
  }
  EXPECT_FALSE(table.set.insert(1, kLeastBytes));
  table.set.erase(7 << 16);
  EXPECT_FALSE(table.set.contains(7 << 16));
  EXPECT_TRUE(table.set.insert(7 << 16, kLeastBytes));
  for (std::uintptr_t i = 1; i <= ArenaSet::kMaxArenas; ++i) {
    ASSERT_TRUE(table.set.contains(i << 16));
  }
}

}  // namespace
}  // namespace strata
