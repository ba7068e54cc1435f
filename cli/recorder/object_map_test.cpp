#include "recorder/object_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <unordered_map>
#include <vector>

namespace strata::recorder {
namespace {

TEST(ObjectMap, TellsWhichObjectLivedAtAnAddress) {
  ObjectMap map;
  EXPECT_EQ(map.take(16), ObjectMap::kNone);
  EXPECT_EQ(map.insert(16, 7), ObjectMap::kNone);
  EXPECT_EQ(map.insert(16, 8), 7u);
  EXPECT_EQ(map.count(), 1u);
  EXPECT_EQ(map.take(16), 8u);
  EXPECT_EQ(map.take(16), ObjectMap::kNone);
  EXPECT_EQ(map.count(), 0u);
  map.clear();
}

/// The bucket of an address in the first table.
std::uint64_t place_of(std::uint64_t address) { return address * 0x9e3779b97f4a7c15u >> 32 & 1023; }

/// The smallest addresses that lie in one bucket.
std::vector<std::uint64_t> addresses_of_one_bucket(std::size_t count) {
  std::vector<std::uint64_t> found;
  for (std::uint64_t address = 1; found.size() < count; ++address) {
    if (place_of(address) == 5) found.push_back(address);
  }
  return found;
}

TEST(ObjectMap, FindsWhatDidNotFitIntoItsBucketInWhateverOrderTheyGo) {
  std::vector<std::uint64_t> addresses = addresses_of_one_bucket(100);
  std::mt19937 random(1);
  ObjectMap map;
  for (int round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      EXPECT_EQ(map.insert(addresses[i], i), ObjectMap::kNone);
    }
    std::vector<std::size_t> order(addresses.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) EXPECT_EQ(map.take(addresses[i]), i);
  }
  EXPECT_EQ(map.count(), 0u);
  map.clear();
}

TEST(ObjectMap, TellsAddressesOfABucketApartThatHaveTheSameLowHalf) {
  unsigned pairs = 0;
  for (std::uint64_t low = 0; low < 64; low += 16) {
    const std::uint64_t first = std::uint64_t{1} << 32 | low;
    for (std::uint64_t high = 2; high < 1 << 20; ++high) {
      const std::uint64_t second = high << 32 | low;
      if (place_of(first) != place_of(second)) continue;
      ++pairs;
      ObjectMap map;
      EXPECT_EQ(map.insert(first, 1), ObjectMap::kNone);
      EXPECT_EQ(map.take(second), ObjectMap::kNone);
      EXPECT_EQ(map.insert(second, 2), ObjectMap::kNone);
      EXPECT_EQ(map.insert(second, 3), 2u);
      EXPECT_EQ(map.take(first), 1u);
      EXPECT_EQ(map.take(second), 3u);
      EXPECT_EQ(map.count(), 0u);
      map.clear();
      break;
    }
  }
  EXPECT_GT(pairs, 0u);
}

TEST(ObjectMap, IsAMapWhileItGrowsAndShrinks) {
  const auto seed = static_cast<unsigned>(std::random_device()());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  ObjectMap map;
  std::unordered_map<std::uint64_t, std::uint64_t> expected;
  for (std::uint64_t object = 0; object < 400'000; ++object) {
    // Few addresses, so that they collide; more of them half of the time, so that the table grows.
    const std::uint64_t address = 8 + 8 * (random() % (object < 200'000 ? 100'000 : 3'000));
    const auto at = expected.find(address);
    const std::uint64_t before = at == expected.end() ? ObjectMap::kNone : at->second;
    if (random() % 5 < 3) {
      ASSERT_EQ(map.insert(address, object), before);
      expected[address] = object;
    } else {
      ASSERT_EQ(map.take(address), before);
      expected.erase(address);
    }
    ASSERT_EQ(map.count(), expected.size());
  }
  for (const auto& [address, object] : expected) ASSERT_EQ(map.take(address), object);
  EXPECT_EQ(map.count(), 0u);
  map.clear();
}

}  // namespace
}  // namespace strata::recorder
