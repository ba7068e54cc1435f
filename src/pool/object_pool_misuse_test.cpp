#include <strata/object_pool.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>

namespace strata {
namespace {

struct Item {
  explicit Item(int v) : value(v) {}
  ~Item() { value = -1; }
  int value;
  char rest[60] = {};
};

class ObjectPoolDeathTest : public testing::Test {
 protected:
  ObjectPool<Item> pool{8, Exhaustion::kGrow, Leftovers::kDestroy};
};

TEST_F(ObjectPoolDeathTest, DiesOfADoubleDestroy) {
  Item* item = pool.create(1);
  pool.destroy(item);
  EXPECT_DEATH(pool.destroy(item), "strata: destroy of 0x[0-9a-f]+: it is already free");
}

TEST_F(ObjectPoolDeathTest, DiesOfAnObjectOfAnotherPool) {
  ObjectPool<Item> other(8);
  auto item = other.make(1);
  Item local(1);
  EXPECT_DEATH(pool.destroy(item.get()), "destroy of 0x[0-9a-f]+: it is not memory of this pool");
  EXPECT_DEATH(pool.destroy(&local), "it is not memory of this pool");
}

TEST_F(ObjectPoolDeathTest, DiesOfAHandleThatNamesThePoolBeforeItMoved) {
  auto item = pool.make(1);
  ObjectPool<Item> moved(std::move(pool));
  EXPECT_DEATH(item.reset(), "it is not memory of this pool");
  moved.destroy(item.release());
}

TEST_F(ObjectPoolDeathTest, DiesOfAPointerFourGigaslotsAway) {
  auto* item = reinterpret_cast<char*>(pool.create(1));
  auto* wrapped = reinterpret_cast<Item*>(item + (sizeof(Item) << 32));
  EXPECT_DEATH(pool.destroy(wrapped), "it is not memory of this pool");
}

TEST_F(ObjectPoolDeathTest, DiesOfAPointerIntoAnObject) {
  auto* item = reinterpret_cast<char*>(pool.create(1));
  EXPECT_DEATH(pool.destroy(reinterpret_cast<Item*>(item + 4)),
               "it points into a block, not at its start");
}

TEST_F(ObjectPoolDeathTest, DiesOfASlotThatWasNeverUsed) {
  Item* item = pool.create(1);
  EXPECT_DEATH(pool.destroy(item + 1), "this block was never allocated");
}

TEST_F(ObjectPoolDeathTest, DiesOfBadPointersInEveryChunk) {
  Item* first = pool.create(0);
  for (int i = 0; i < 100; ++i) pool.create(i);
  pool.destroy(first);
  EXPECT_DEATH(pool.destroy(first), "it is already free") << "the first chunk is not active now";
}

TEST_F(ObjectPoolDeathTest, DiesOfADestructorThatDestroysItsOwnObject) {
  struct Suicide {
    ObjectPool<Suicide>* pool;
    ~Suicide() { pool->destroy(this); }
  };
  ObjectPool<Suicide> suicides(2, Exhaustion::kReturnNull, Leftovers::kDestroy);
  EXPECT_DEATH(suicides.destroy(suicides.create(&suicides)), "it is already free");
}

TEST_F(ObjectPoolDeathTest, DiesOfBadPointersInDestructorsWhileItIsCleared) {
  struct Liar {
    ObjectPool<Liar>* pool;
    Liar* claims;
    ~Liar() { pool->destroy(claims); }
  };
  ObjectPool<Liar> liars(4, Exhaustion::kReturnNull, Leftovers::kDestroy);
  Liar* liar = liars.create(&liars, nullptr);
  Liar elsewhere{&liars, nullptr};
  for (Liar* lie : {&elsewhere, liar + 1}) {
    liar->claims = lie;
    EXPECT_DEATH(liars.clear(), "destroy of 0x");
  }
  liar->claims = nullptr;
  liars.clear();
  // Once clear() is over, an object that is already free is reported as such again.
  EXPECT_DEATH(
      {
        liar = liars.create(&liars, nullptr);
        liars.destroy(liar);
        liars.destroy(liar);
      },
      "it is already free");
}

TEST_F(ObjectPoolDeathTest, DiesOfLeftoversIfAsked) {
  EXPECT_DEATH(
      {
        ObjectPool<Item> strict(2, Exhaustion::kReturnNull, Leftovers::kAbort);
        strict.create(1);
      },
      "strata: ObjectPool destroyed with live objects, the first at 0x[0-9a-f]+");
}

#ifndef STRATA_HAS_ASAN
TEST_F(ObjectPoolDeathTest, FindsAWriteToADestroyedObjectWhereFreeSlotsArePoisoned) {
  ObjectPool<Item, Checks::kAlways, FreeSlots::kPoisoned> poisoned(2);
  volatile Item* item = poisoned.create(1);
  poisoned.destroy(const_cast<Item*>(item));
  EXPECT_EQ(static_cast<unsigned>(item->value), 0xdbdbdbdbu);
  EXPECT_DEATH(
      {
        item->value = 5;
        poisoned.create(2);
      },
      "strata: write to 0x[0-9a-f]+ after it was destroyed");
}

template <typename T, Checks kChecks>
void die_of_a_write_after_clear() {
  ObjectPool<T, kChecks, FreeSlots::kPoisoned> poisoned(2);
  volatile T* object = poisoned.create(1);
  poisoned.clear();
  object->value = 5;
  poisoned.create(2);
}

TEST_F(ObjectPoolDeathTest, FindsAWriteToAnObjectThatWasClearedWhereFreeSlotsArePoisoned) {
  struct Plain {
    int value;
  };
  constexpr char kSentence[] = "strata: write to 0x[0-9a-f]+ after it was destroyed";
  EXPECT_DEATH((die_of_a_write_after_clear<Item, Checks::kAlways>()), kSentence);
  EXPECT_DEATH((die_of_a_write_after_clear<Item, Checks::kNever>()), kSentence);
  EXPECT_DEATH((die_of_a_write_after_clear<Plain, Checks::kAlways>()), kSentence);
}
#else
TEST_F(ObjectPoolDeathTest, LetsAsanSeeTheUseOfADestroyedObject) {
  volatile Item* item = pool.create(1);
  pool.destroy(const_cast<Item*>(item));
  EXPECT_DEATH(item->value = 5, "use-after-poison");
  EXPECT_DEATH(item[1].value = 5, "use-after-poison") << "a slot that was never used";
}
#endif

}  // namespace
}  // namespace strata
