#include "base/intrusive_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <vector>

#include "base/seeded_test.h"

namespace strata {
namespace {

struct ByAge {};
struct BySize {};

struct Item : ListLink<ByAge>, ListLink<BySize> {
  int value = 0;
};

using AgeList = IntrusiveList<Item, ByAge>;
using SizeList = IntrusiveList<Item, BySize>;

std::vector<const Item*> contents(const AgeList& list) {
  std::vector<const Item*> items;
  for (const Item& item : list) items.push_back(&item);
  return items;
}

constinit IntrusiveList<Item, ByAge> g_constant_initialised;

TEST(IntrusiveList, IsEmptyWhenNew) {
  EXPECT_TRUE(g_constant_initialised.is_empty());
  EXPECT_EQ(g_constant_initialised.front(), nullptr);
  EXPECT_EQ(g_constant_initialised.pop_front(), nullptr);
}

TEST(IntrusiveList, TheLatestPushedIsFirst) {
  AgeList list;
  Item a, b;
  list.push_front(a);
  list.push_front(b);
  EXPECT_EQ(contents(list), (std::vector<const Item*>{&b, &a}));
  EXPECT_EQ(list.pop_front(), &b);
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_TRUE(list.is_empty());
}

TEST(IntrusiveList, ARemovedElementMayBePushedAgain) {
  AgeList list;
  Item a, b;
  list.push_front(a);
  list.push_front(b);
  list.remove(a);
  EXPECT_EQ(contents(list), (std::vector<const Item*>{&b}));
  list.push_front(a);
  EXPECT_EQ(contents(list), (std::vector<const Item*>{&a, &b}));
}

TEST(IntrusiveList, AnElementMovesToEitherEnd) {
  AgeList list;
  Item a, b, c;
  for (Item* item : {&a, &b, &c}) list.push_back(*item);
  list.move_to_front(b);
  EXPECT_EQ(contents(list), (std::vector<const Item*>{&b, &a, &c}));
  list.move_to_back(b);
  EXPECT_EQ(contents(list), (std::vector<const Item*>{&a, &c, &b}));
}

TEST(IntrusiveList, AnElementMayBeInTwoListsAtOnce) {
  AgeList by_age;
  SizeList by_size;
  Item a, b;
  by_age.push_front(a);
  by_age.push_front(b);
  by_size.push_front(b);
  by_size.push_front(a);
  by_age.remove(a);
  EXPECT_EQ(contents(by_age), (std::vector<const Item*>{&b}));
  EXPECT_EQ(by_size.front(), &a);
  EXPECT_EQ(SizeList::next(a), &b);
  EXPECT_EQ(SizeList::next(b), nullptr);
}

class IntrusiveListRandom : public SeededTest {};

TEST_F(IntrusiveListRandom, BehavesLikeAStandardList) {
  AgeList list;
  std::list<const Item*> model;
  std::vector<Item> items(12);  // few, so that empty and full both come up often
  for (int step = 0; step < 20'000; ++step) {
    Item& item = items[below(items.size())];
    const auto place = std::find(model.begin(), model.end(), &item);
    if (below(8) == 0) {
      const Item* expected = model.empty() ? nullptr : model.front();
      ASSERT_EQ(list.pop_front(), expected);
      if (expected != nullptr) model.pop_front();
    } else if (place == model.end()) {
      list.push_front(item);
      model.push_front(&item);
    } else {
      list.remove(item);
      model.erase(place);
    }
    ASSERT_EQ(contents(list), std::vector<const Item*>(model.begin(), model.end()));
    ASSERT_EQ(list.is_empty(), model.empty());
  }
}

#ifndef NDEBUG
TEST(IntrusiveListDeathTest, DiesOnAnElementThatIsAlreadyLinked) {
  AgeList list;
  Item a;
  list.push_front(a);
  EXPECT_DEATH(list.push_front(a), "internal error, please report: !link->is_linked");
}

TEST(IntrusiveListDeathTest, DiesOnRemovingAnElementThatIsNotLinked) {
  AgeList list;
  Item a;
  EXPECT_DEATH(list.remove(a), "internal error, please report: link->is_linked");
}
#endif

}  // namespace
}  // namespace strata
