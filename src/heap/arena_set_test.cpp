#include "heap/arena_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>

#include "heap/heap_support_test.h"

namespace strata {
namespace {

struct Table {
  Table() { set.adopt_table(places.get()); }
  std::size_t empty_places() const {
    return static_cast<std::size_t>(
        std::count_if(places.get(), places.get() + ArenaSet::kPlaces,
                      [](const ArenaSet::Place& place) { return place.load() == 0; }));
  }
  std::unique_ptr<ArenaSet::Place[]> places{new ArenaSet::Place[ArenaSet::kPlaces]()};
  ArenaSet set;
};

TEST(ArenaSet, AgreesWithAModel) {
  Table table;
  std::mt19937_64 random(seed());
  std::set<std::uintptr_t> model;
  for (int step = 0; step < 20'000; ++step) {
    const std::uintptr_t arena = (1 + random() % 500) << 26;
    if (model.count(arena) != 0) {
      table.set.erase(arena);
      model.erase(arena);
    } else {
      ASSERT_TRUE(table.set.insert(arena));
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
    ASSERT_TRUE(table.set.insert(i << 16));
    if (i > 10) table.set.erase((i - 10) << 16);
  }
  EXPECT_GE(table.empty_places(), ArenaSet::kPlaces - 20);
}

TEST(ArenaSet, TheLowestAddressesAreInNoArena) {
  Table table;
  EXPECT_FALSE(table.set.contains(0));
  ASSERT_TRUE(table.set.insert(1 << 26));
  EXPECT_FALSE(table.set.contains(0));
}

TEST(ArenaSet, IsFullAtItsNumberOfArenasAndTakesAnotherWhenOneGoes) {
  Table table;
  for (std::uintptr_t i = 1; i <= ArenaSet::kMaxArenas; ++i) {
    ASSERT_TRUE(table.set.insert(i << 16));
  }
  EXPECT_FALSE(table.set.insert(1));
  table.set.erase(7 << 16);
  EXPECT_FALSE(table.set.contains(7 << 16));
  EXPECT_TRUE(table.set.insert(7 << 16));
  for (std::uintptr_t i = 1; i <= ArenaSet::kMaxArenas; ++i) {
    ASSERT_TRUE(table.set.contains(i << 16));
  }
}

}  // namespace
}  // namespace strata
