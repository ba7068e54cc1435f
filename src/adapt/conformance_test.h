#pragma once

#include <strata/allocator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

/// \file  What standard containers must be able to do with a standard allocator over any source. A
///        family gives the source: the type Family::Source, and source() of each family object.

namespace strata::conformance {

/// The family of a source that is made with these arguments.
template <typename T, auto... kArguments>
class FamilyOf {
 public:
  using Source = T;
  Source& source() { return source_; }

 private:
  Source source_{kArguments...};
};

template <typename Family>
class AllocatorTest : public testing::Test {
 public:
  template <typename T>
  using Of = Allocator<T, typename Family::Source>;
  template <typename T>
  Of<T> allocator() {
    return Of<T>(family.source());
  }
  Family family;
};

TYPED_TEST_SUITE_P(AllocatorTest);

TYPED_TEST_P(AllocatorTest, CarriesEverySequence) {
  const auto check = [](auto container) {
    for (int i = 0; i < 500; ++i) container.insert(container.end(), i);
    EXPECT_EQ(std::accumulate(container.begin(), container.end(), 0), 499 * 250);
    auto copy = container;
    auto moved = std::move(container);
    EXPECT_EQ(copy, moved);
    copy.clear();
    swap(copy, moved);
    EXPECT_TRUE(moved.empty());
    moved = copy;
    moved = std::move(copy);
    EXPECT_EQ(moved.size(), 500u);
  };
  using A = typename TestFixture::template Of<int>;
  check(std::vector<int, A>(this->template allocator<int>()));
  check(std::deque<int, A>(this->template allocator<int>()));
  check(std::list<int, A>(this->template allocator<int>()));
  std::forward_list<int, A> forward(this->template allocator<int>());
  for (int i = 0; i < 100; ++i) forward.push_front(i);
  forward.sort();
  EXPECT_EQ(forward.front(), 0);
}

TYPED_TEST_P(AllocatorTest, CarriesEveryAssociativeContainer) {
  using Pair = std::pair<const int, long>;
  using A = typename TestFixture::template Of<Pair>;
  const auto check = [](auto map) {
    std::mt19937 random(4);
    std::map<int, long> model;
    for (int i = 0; i < 2000; ++i) {
      const int key = static_cast<int>(random() % 300);
      if (random() % 3 == 0) {
        EXPECT_EQ(map.erase(key), model.erase(key));
      } else {
        map[key] = i;
        model[key] = i;
      }
    }
    EXPECT_EQ(std::map(map.begin(), map.end()), model);
  };
  check(std::map<int, long, std::less<>, A>(this->template allocator<Pair>()));
  check(std::unordered_map<int, long, std::hash<int>, std::equal_to<>, A>(
      this->template allocator<Pair>()));
  std::multiset<int, std::less<>, typename TestFixture::template Of<int>> set(
      this->template allocator<int>());
  for (int i = 0; i < 100; ++i) set.insert(i % 10);
  EXPECT_EQ(set.count(3), 10u);
}

TYPED_TEST_P(AllocatorTest, CarriesStrings) {
  std::basic_string<char, std::char_traits<char>, typename TestFixture::template Of<char>> text(
      this->template allocator<char>());
  for (int i = 0; i < 1000; ++i) text += "ab";
  EXPECT_EQ(text.size(), 2000u);
  EXPECT_EQ(text.find("ba"), 1u);
}

TYPED_TEST_P(AllocatorTest, CarriesSharedObjects) {
  auto shared = std::allocate_shared<std::vector<int>>(this->template allocator<int>(), 3, 7);
  std::weak_ptr<std::vector<int>> weak = shared;
  EXPECT_EQ(shared->at(2), 7);
  shared.reset();
  EXPECT_TRUE(weak.expired());
}

TYPED_TEST_P(AllocatorTest, IsEqualAfterRebindingAndBack) {
  using Traits = std::allocator_traits<typename TestFixture::template Of<int>>;
  auto a = this->template allocator<int>();
  typename Traits::template rebind_alloc<double> b(a);
  decltype(a) c(b);
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a != c);
  int* p = Traits::allocate(a, 10);
  Traits::deallocate(c, p, 10);
  static_assert(std::is_same_v<typename Traits::value_type, int>);
}

TYPED_TEST_P(AllocatorTest, RefusesMoreThanTheAddressSpaceHolds) {
  auto a = this->template allocator<long>();
  EXPECT_THAT([&] { static_cast<void>(a.allocate(~std::size_t{0} / sizeof(long) + 1)); },
              testing::ThrowsMessage<std::bad_alloc>(
                  testing::StrEq("Allocator: more elements than the address space holds")));
  EXPECT_THAT([&] { static_cast<void>(a.allocate(~std::size_t{0} / 2 / sizeof(long))); },
              testing::ThrowsMessage<std::bad_alloc>(
                  testing::StrEq("Allocator: the source has no memory for this request")));
}

struct alignas(64) Aligned {
  int value = 0;
};

TYPED_TEST_P(AllocatorTest, RespectsTheAlignmentOfOveralignedTypes) {
  std::list<Aligned, typename TestFixture::template Of<Aligned>> list(
      this->template allocator<Aligned>());
  for (int i = 0; i < 20; ++i) {
    list.push_back({i});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&list.back()) % 64, 0u);
  }
}

TYPED_TEST_P(AllocatorTest, OwnsUniqueObjectsAndArrays) {
  struct Counted {
    explicit Counted(int* counter) : alive(counter) { ++*alive; }
    ~Counted() { --*alive; }
    int* alive;
  };
  int alive = 0;
  auto& source = this->family.source();
  {
    auto object = make_unique_from<Counted>(source, &alive);
    auto other = std::move(object);
    EXPECT_EQ(alive, 1);
    auto array = make_unique_from<std::string[]>(source, 10);
    array[9] = "text that is too long for the small buffer of a string";
    auto numbers = make_unique_from<int[]>(source, 100);
    EXPECT_EQ(std::count(numbers.get(), numbers.get() + 100, 0), 100);
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST_P(AllocatorTest, GivesMemoryBackWhenAConstructorThrows) {
  struct Thrower {
    Thrower() { throw 1; }
  };
  auto& source = this->family.source();
  void* first = source.try_allocate(sizeof(Thrower), alignof(Thrower));
  source.deallocate(first);
  for (int i = 0; i < 100'000; ++i) {
    EXPECT_THROW(static_cast<void>(make_unique_from<Thrower>(source)), int);
  }
  void* again = source.try_allocate(sizeof(Thrower), alignof(Thrower));
  EXPECT_NE(again, nullptr);
  source.deallocate(again);
}

REGISTER_TYPED_TEST_SUITE_P(AllocatorTest, CarriesEverySequence, CarriesEveryAssociativeContainer,
                            CarriesStrings, CarriesSharedObjects, IsEqualAfterRebindingAndBack,
                            RefusesMoreThanTheAddressSpaceHolds,
                            RespectsTheAlignmentOfOveralignedTypes, OwnsUniqueObjectsAndArrays,
                            GivesMemoryBackWhenAConstructorThrows);

}  // namespace strata::conformance
