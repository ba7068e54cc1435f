#include <strata/object_pool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/seeded_test.h"

namespace strata {
namespace {

/// Counts its live objects, and has no default constructor.
struct Counted {
  static inline int alive = 0;
  explicit Counted(int v) : value(v) { ++alive; }
  Counted(const Counted&) = delete;
  ~Counted() { --alive; }
  int value;
};

struct Thrower {
  explicit Thrower(bool fails) {
    if (fails) throw std::runtime_error("no");
  }
};

struct alignas(128) Overaligned {
  char bytes[130];
};

struct Root {
  virtual ~Root() = default;
  virtual int id() const { return 1; }
  long a = 1;
};
struct Left : virtual Root {
  long b = 2;
};
struct Right : virtual Root {
  long c = 3;
};
struct Diamond : Left, Right {
  explicit Diamond(int v) : value(v) {}
  int id() const override { return value; }
  int value;
};

struct Aggregate {
  int a;
  std::string b;
};

template <typename Tag>
class ObjectPoolTest : public testing::Test {};
template <Checks kC, FreeSlots kF>
struct Form {
  static constexpr Checks kChecks = kC;
  static constexpr FreeSlots kFreeSlots = kF;
};
using Forms = testing::Types<
    Form<Checks::kAlways, FreeSlots::kUntouched>, Form<Checks::kNever, FreeSlots::kUntouched>,
    Form<Checks::kAlways, FreeSlots::kPoisoned>, Form<Checks::kNever, FreeSlots::kPoisoned>>;
TYPED_TEST_SUITE(ObjectPoolTest, Forms);

template <typename Tag, typename T>
using Pool = ObjectPool<T, Tag::kChecks, Tag::kFreeSlots>;

TYPED_TEST(ObjectPoolTest, ConstructsAndDestroysEachObjectOnce) {
  Pool<TypeParam, Counted> pool(3);
  Counted* a = pool.create(1);
  Counted* b = pool.create(2);
  EXPECT_EQ(Counted::alive, 2);
  EXPECT_EQ(a->value, 1);
  EXPECT_EQ(b->value, 2);
  pool.destroy(a);
  EXPECT_EQ(Counted::alive, 1);
  EXPECT_EQ(pool.size(), 1u);
  pool.destroy(b);
  pool.destroy(nullptr);
  EXPECT_EQ(Counted::alive, 0);
  EXPECT_TRUE(pool.empty());
}

TYPED_TEST(ObjectPoolTest, ReturnsNullWhenItIsFixedAndFull) {
  Pool<TypeParam, Counted> pool(2, Exhaustion::kReturnNull, Leftovers::kDestroy);
  EXPECT_EQ(pool.capacity(), 2u);
  Counted* a = pool.create(1);
  EXPECT_NE(pool.create(2), nullptr);
  EXPECT_EQ(pool.available(), 0u);
  EXPECT_EQ(pool.create(3), nullptr);
  EXPECT_FALSE(pool.make(3));
  pool.destroy(a);
  EXPECT_EQ(pool.create(4), a) << "the slot freed last comes first";
}

TYPED_TEST(ObjectPoolTest, ThrowsWhenItIsFullAndAskedTo) {
  Pool<TypeParam, Counted> pool(1, Exhaustion::kThrow, Leftovers::kDestroy);
  EXPECT_NE(pool.create(1), nullptr);
  EXPECT_THROW(pool.create(2), std::bad_alloc);
  EXPECT_EQ(Counted::alive, 1);
}

TYPED_TEST(ObjectPoolTest, SaysWhoseMemoryHasRunOut) {
  Pool<TypeParam, int> full(0, Exhaustion::kThrow);
  EXPECT_THAT([&] { full.create(1); }, testing::ThrowsMessage<std::bad_alloc>(
                                           testing::StrEq("ObjectPool: every slot is taken")));
  EXPECT_THAT([] { (Pool<TypeParam, int>(~std::size_t{0})); },
              testing::ThrowsMessage<std::bad_alloc>(
                  testing::StrEq("ObjectPool: the memory for its slots is refused")));
}

TYPED_TEST(ObjectPoolTest, IsMadeWithoutExceptionsOrSaysWhyNot) {
  const char* reason = "";
  auto pool = Pool<TypeParam, Counted>::try_create(2, Exhaustion::kReturnNull, Leftovers::kDestroy,
                                                   &reason);
  ASSERT_TRUE(pool);
  EXPECT_EQ(reason, nullptr);
  EXPECT_EQ(pool->create(1)->value, 1);
  EXPECT_FALSE((Pool<TypeParam, Counted>::try_create(~std::size_t{0}, Exhaustion::kReturnNull,
                                                     Leftovers::kDestroy, &reason)));
  EXPECT_STREQ(reason, "ObjectPool: the memory for its slots is refused");
  char small[8];
  EXPECT_FALSE((Pool<TypeParam, Counted>::try_create(small, sizeof small, Exhaustion::kReturnNull,
                                                     Leftovers::kDestroy, &reason)));
  EXPECT_STREQ(reason, "ObjectPool: not one slot fits into the buffer");
}

TYPED_TEST(ObjectPoolTest, KeepsItsObjectsWhereTheyAreWhenItMoves) {
  Pool<TypeParam, Counted> first(Exhaustion::kGrow);
  std::vector<Counted*> objects;
  for (int i = 0; i < 200; ++i) objects.push_back(first.create(i));
  Pool<TypeParam, Counted> second(std::move(first));
  EXPECT_EQ(second.size(), 200u);
  EXPECT_EQ(first.size(), 0u);      // NOLINT: a pool that moved has no slots
  EXPECT_EQ(first.capacity(), 0u);  // NOLINT
  second.check_invariants();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(objects[static_cast<std::size_t>(i)]->value, i);
  for (Counted* object : objects) second.destroy(object);
  auto again = first.make(7);  // NOLINT: and may grow some
  EXPECT_EQ(again->value, 7);
  EXPECT_EQ(Counted::alive, 1);
}

TYPED_TEST(ObjectPoolTest, DestroysWhatItHeldWhenItIsAssigned) {
  Pool<TypeParam, Counted> pool(2, Exhaustion::kReturnNull, Leftovers::kDestroy);
  pool.create(1);
  Pool<TypeParam, Counted> other(5, Exhaustion::kThrow, Leftovers::kDestroy);
  Counted* kept = other.create(2);
  pool = std::move(other);
  EXPECT_EQ(Counted::alive, 1);
  EXPECT_EQ(pool.capacity(), 5u);
  EXPECT_TRUE(pool.owns(kept));
  pool.check_invariants();
  for (int i = 0; i < 4; ++i) pool.create(i);
  EXPECT_THROW(pool.create(9), std::bad_alloc) << "what to do when it is full moves, too";
  testing::internal::CaptureStderr();
  pool = Pool<TypeParam, Counted>(1, Exhaustion::kThrow, Leftovers::kReport);
  pool.create(1);
  pool = Pool<TypeParam, Counted>(1);
  EXPECT_NE(testing::internal::GetCapturedStderr(), "") << "and what to do with what is left";
}

TYPED_TEST(ObjectPoolTest, GrowsByChunksWithoutMovingAnObject) {
  Pool<TypeParam, Counted> pool(Exhaustion::kGrow);
  EXPECT_EQ(pool.capacity(), 0u);
  std::vector<Counted*> live;
  for (int i = 0; i < 5000; ++i) live.push_back(pool.create(i));
  EXPECT_GE(pool.capacity(), 5000u);
  EXPECT_LT(pool.capacity(), 3u * 5000u);
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(live[static_cast<std::size_t>(i)]->value, i);
  pool.check_invariants();
  std::shuffle(live.begin(), live.end(), std::mt19937(1));
  for (Counted* object : live) pool.destroy(object);
  pool.check_invariants();
  const std::size_t capacity = pool.capacity();
  for (std::size_t i = 0; i < capacity; ++i) live.push_back(pool.create(0));
  EXPECT_EQ(pool.capacity(), capacity) << "the slots of every chunk are used before it grows";
  pool.clear();
  EXPECT_EQ(Counted::alive, 0);
}

TYPED_TEST(ObjectPoolTest, GivesASlotBackWhenTheConstructorThrows) {
  Pool<TypeParam, Thrower> pool(1);
  EXPECT_THROW(pool.create(true), std::runtime_error);
  EXPECT_EQ(pool.size(), 0u);
  pool.check_invariants();
  Thrower* object = pool.create(false);
  ASSERT_NE(object, nullptr);
  pool.destroy(object);
  EXPECT_THROW(pool.make(true), std::runtime_error);
  EXPECT_EQ(pool.available(), 1u);
}

TYPED_TEST(ObjectPoolTest, OwnsAnObjectThroughAHandle) {
  Pool<TypeParam, Counted> pool(2);
  {
    auto handle = pool.make(7);
    EXPECT_EQ(handle->value, 7);
    auto other = std::move(handle);
    EXPECT_EQ(pool.size(), 1u);
    EXPECT_EQ(other.get_deleter().pool(), &pool);
  }
  EXPECT_EQ(pool.size(), 0u);
  EXPECT_EQ(Counted::alive, 0);
}

TYPED_TEST(ObjectPoolTest, HoldsTypesOfEveryShape) {
  Pool<TypeParam, Overaligned> overaligned(10, Exhaustion::kReturnNull, Leftovers::kDestroy);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(overaligned.create()) % 128, 0u);
  }
  Pool<TypeParam, char> chars(100, Exhaustion::kReturnNull, Leftovers::kDestroy);
  std::set<char*> distinct;
  for (char i = 0; i < 100; ++i) distinct.insert(chars.create(i));
  EXPECT_EQ(distinct.size(), 100u);
  char expected = 0;
  for (char c : chars) EXPECT_EQ(c, expected++);

  Pool<TypeParam, Aggregate> aggregates(1);
  Aggregate* aggregate = aggregates.create(3, "text that is too long for the small buffer");
  EXPECT_EQ(aggregate->a, 3);
  aggregates.destroy(aggregate);

  Pool<TypeParam, Diamond> diamonds(4);
  auto diamond = diamonds.make(42);
  const Root& root = *diamond;
  EXPECT_EQ(root.id(), 42);
  EXPECT_EQ(root.a + diamond->b + diamond->c, 6);
}

/// operator& does not give its address.
struct Private {
  int value;
  void operator&() const = delete;
};

TYPED_TEST(ObjectPoolTest, WalksObjectsWhoseTypeOverloadsTheAddressOperator) {
  Pool<TypeParam, Private> pool(3, Exhaustion::kReturnNull, Leftovers::kDestroy);
  pool.create(7);
  EXPECT_EQ(pool.begin()->value, 7);
  EXPECT_EQ(std::as_const(pool).begin()->value, 7);
}

TYPED_TEST(ObjectPoolTest, WalksExactlyTheLiveObjects) {
  Pool<TypeParam, int> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  EXPECT_EQ(pool.begin(), pool.end());
  std::multiset<int> expected;
  std::vector<int*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(pool.create(i));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 3 == 0 || (i > 200 && i < 700)) {
      pool.destroy(objects[i]);
    } else {
      expected.insert(static_cast<int>(i));
    }
  }
  EXPECT_EQ(std::multiset<int>(pool.begin(), pool.end()), expected);
  const auto& constant = pool;
  EXPECT_EQ(std::multiset<int>(constant.begin(), constant.end()), expected);
  typename decltype(pool)::const_iterator first = pool.begin();
  EXPECT_TRUE(first == pool.begin() && pool.begin() == first && first != pool.end());
  EXPECT_EQ(std::multiset<int>(first, constant.end()), expected);
  pool.for_each([&](int& value) {
    if (value % 2 == 0) pool.destroy(&value);
  });
  EXPECT_EQ(pool.size(), static_cast<std::size_t>(std::count_if(expected.begin(), expected.end(),
                                                                [](int v) { return v % 2 != 0; })));
  for (int value : pool) EXPECT_NE(value % 2, 0);
}

TYPED_TEST(ObjectPoolTest, RunsEveryDestructorOnClearAndStartsAfresh) {
  Pool<TypeParam, Counted> pool(Exhaustion::kGrow);
  for (int i = 0; i < 300; ++i) pool.create(i);
  pool.clear();
  EXPECT_EQ(Counted::alive, 0);
  EXPECT_EQ(pool.size(), 0u);
  EXPECT_GE(pool.capacity(), 300u);
  pool.check_invariants();
  pool.destroy(pool.create(1));
}

TYPED_TEST(ObjectPoolTest, DestroysWhatIsLeftWhenItDies) {
  {
    Pool<TypeParam, Counted> pool(4, Exhaustion::kReturnNull, Leftovers::kDestroy);
    pool.create(1);
    pool.destroy(pool.create(2));
    pool.create(3);
  }
  EXPECT_EQ(Counted::alive, 0);
}

TYPED_TEST(ObjectPoolTest, ReportsWhatIsLeftInOneLineIfAsked) {
  testing::internal::CaptureStderr();
  {
    Pool<TypeParam, Counted> pool(4);
    pool.create(1);
    pool.create(2);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex(
                  "strata: ObjectPool destroyed with 2 live objects, the first at 0x[0-9a-f]+\n"));
  testing::internal::CaptureStderr();
  {
    Pool<TypeParam, Counted> pool(4);
    pool.make(1);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TYPED_TEST(ObjectPoolTest, LivesInABufferOfTheCaller) {
  using SmallPool = Pool<TypeParam, Counted>;
  std::vector<char> buffer(SmallPool::buffer_bytes(10) + 3);
  SmallPool pool(buffer.data() + 3, buffer.size() - 3);
  ASSERT_GE(pool.capacity(), 10u);
  auto handle = pool.make(1);
  EXPECT_GE(reinterpret_cast<char*>(handle.get()), buffer.data());
  EXPECT_LT(reinterpret_cast<char*>(handle.get()), buffer.data() + buffer.size());
  EXPECT_EQ(pool.release_empty_chunks(), 0u);
  handle.reset();
  EXPECT_EQ(pool.release_empty_chunks(), 0u) << "the buffer stays";
  EXPECT_NE(pool.make(2), nullptr);
  EXPECT_THROW(SmallPool(buffer.data(), 8), std::invalid_argument);
  EXPECT_EQ(SmallPool::buffer_bytes(SIZE_MAX / 4), 0u) << "they fit into no buffer";
}

TYPED_TEST(ObjectPoolTest, WritesNowhereBesideABufferOfTheCaller) {
  using SmallPool = Pool<TypeParam, Counted>;
  alignas(64) char memory[512];
  for (std::size_t skipped = 0; skipped < 16; ++skipped) {
    for (std::size_t bytes = 0; bytes < 400; ++bytes) {
      std::memset(memory, 0x5a, sizeof memory);
      auto pool = SmallPool::try_create(memory + skipped, bytes);
      if (!pool) continue;
      ASSERT_LT(pool->capacity(), bytes);
      std::vector<Counted*> objects;
      while (Counted* object = pool->create(1)) objects.push_back(object);
      for (Counted* object : objects) pool->destroy(object);
      pool->check_invariants();
      char* const end = memory + skipped + bytes;
      ASSERT_EQ(std::count(end, std::end(memory), 0x5a), std::end(memory) - end);
    }
  }
}

TYPED_TEST(ObjectPoolTest, GivesEmptyChunksBackAndGoesOn) {
  Pool<TypeParam, int> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  std::vector<int*> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back(pool.create(i));
  for (std::size_t i = 1; i < objects.size(); ++i) pool.destroy(objects[i]);
  const std::size_t capacity = pool.capacity();
  const std::size_t released = pool.release_empty_chunks();
  EXPECT_GT(released, 0u);
  EXPECT_EQ(pool.capacity(), capacity - released);
  EXPECT_EQ(*objects[0], 0);
  pool.check_invariants();
  for (int i = 0; i < 1000; ++i) pool.create(i);
  EXPECT_EQ(pool.size(), 1001u);
  pool.clear();
  const std::size_t all = pool.capacity();
  EXPECT_EQ(pool.release_empty_chunks(), all);
  EXPECT_EQ(pool.capacity(), 0u);
  EXPECT_NE(pool.create(1), nullptr);
}

TYPED_TEST(ObjectPoolTest, ReservesSlotsAheadAndReportsRefusal) {
  Pool<TypeParam, Overaligned> pool(Exhaustion::kReturnNull, Leftovers::kDestroy);
  EXPECT_EQ(pool.create(), nullptr);
  EXPECT_TRUE(pool.reserve(100));
  EXPECT_TRUE(pool.reserve(50));
  EXPECT_EQ(pool.capacity(), 100u);
  EXPECT_FALSE(pool.reserve(SIZE_MAX / 2));
  EXPECT_EQ(pool.capacity(), 100u);
  EXPECT_NE(pool.create(), nullptr);
}

/// Creates another object of its pool during its destruction, so that the pool grows meanwhile.
template <typename Tag>
struct Successor {
  Pool<Tag, Successor>* pool;
  int heirs;
  ~Successor() {
    for (int i = 0; i < heirs; ++i) pool->create(Successor{pool, 0});
  }
  Successor(Pool<Tag, Successor>* p, int n) : pool(p), heirs(n) {}
  Successor(Successor&& other) noexcept : pool(other.pool), heirs(std::exchange(other.heirs, 0)) {}
};

TYPED_TEST(ObjectPoolTest, LetsADestructorUseThePool) {
  Pool<TypeParam, Successor<TypeParam>> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  auto* parent = pool.create(&pool, 1000);
  pool.destroy(parent);
  EXPECT_EQ(pool.size(), 1000u);
  pool.check_invariants();
}

/// Owns another object of its pool, and destroys it in its own destructor.
struct Owner {
  static inline int alive = 0;
  explicit Owner(ObjectPool<Owner>* p, Owner* o = nullptr) : pool(p), owned(o) { ++alive; }
  Owner(const Owner&) = delete;
  ~Owner() {
    --alive;
    pool->destroy(owned);
  }
  ObjectPool<Owner>* pool;
  Owner* owned;
};

/// Makes chains of three in every order of their slots.
void fill_with_owners(ObjectPool<Owner>& pool) {
  int order[] = {0, 1, 2};
  do {
    Owner* in_order[3];
    for (Owner*& owner : in_order) owner = pool.create(&pool);
    for (int i = 0; i < 2; ++i) in_order[order[i]]->owned = in_order[order[i + 1]];
  } while (std::next_permutation(std::begin(order), std::end(order)));
  EXPECT_EQ(Owner::alive, 18);
}

TEST(ObjectPoolOfOwners, ClearsEachObjectOnceInWhateverSlotsTheOwnedOnesAre) {
  ObjectPool<Owner> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  for (int round = 0; round < 2; ++round) {
    fill_with_owners(pool);
    pool.clear();
    EXPECT_EQ(Owner::alive, 0);
    EXPECT_TRUE(pool.empty());
    pool.check_invariants();
  }
}

TEST(ObjectPoolOfOwners, ClearsEachObjectOnceInEveryChunk) {
  ObjectPool<Owner> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  std::vector<Owner*> owners;
  for (int i = 0; i < 1000; ++i) owners.push_back(pool.create(&pool));
  // The owners are in the later half: the objects that they own are destroyed first, some in other
  // chunks.
  for (std::size_t i = 0; i < 500; ++i) owners[999 - i]->owned = owners[i];
  pool.clear();
  EXPECT_EQ(Owner::alive, 0);
  pool.check_invariants();
}

TEST(ObjectPoolOfOwners, DestroysEachObjectOnceWhenThePoolDies) {
  {
    ObjectPool<Owner> pool(Exhaustion::kGrow, Leftovers::kDestroy);
    fill_with_owners(pool);
  }
  EXPECT_EQ(Owner::alive, 0);
}

TEST(ObjectPoolOfOwners, EndsWhatItHeldBeforeItIsAssignedAnything) {
  ObjectPool<Owner> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  fill_with_owners(pool);
  pool = ObjectPool<Owner>(10);
  EXPECT_EQ(Owner::alive, 0);
  EXPECT_EQ(pool.capacity(), 10u);
  Owner* owner = pool.create(&pool);
  ObjectPool<Owner>& same = pool;
  pool = std::move(same);
  EXPECT_TRUE(pool.owns(owner)) << "an assignment to itself changes nothing";
  pool.destroy(owner);
  EXPECT_EQ(Owner::alive, 0);
  pool.check_invariants();
}

/// Owns two other objects of its pool, one of which clears the pool in its destructor.
struct Parent {
  static inline int alive = 0;
  explicit Parent(ObjectPool<Parent>& p, bool c = false) : pool(p), clears(c) { ++alive; }
  Parent(const Parent&) = delete;
  ~Parent() {
    --alive;
    if (clears) pool.clear();
    for (Parent* child : children) pool.destroy(child);
  }
  ObjectPool<Parent>& pool;
  bool clears;
  Parent* children[2] = {};
};

TEST(ObjectPoolOfOwners, DestroysNoObjectAgainThatADestructorCleared) {
  ObjectPool<Parent> pool(2, Exhaustion::kGrow, Leftovers::kDestroy);
  Parent* parent = pool.create(pool);
  parent->children[0] = pool.create(pool, true);
  parent->children[1] = pool.create(pool);  // in a chunk that is empty before its turn comes
  pool.clear();
  EXPECT_EQ(Parent::alive, 0);
  pool.check_invariants();
}

/// Calls a function of its pool in its destructor.
struct Caller {
  static inline int alive = 0;
  using Call = void (*)(ObjectPool<Caller>&);
  Caller(ObjectPool<Caller>& p, Call c) : pool(p), call(c) { ++alive; }
  Caller(const Caller&) = delete;
  ~Caller() {
    --alive;
    call(pool);
  }
  ObjectPool<Caller>& pool;
  Call call;
};
constexpr Caller::Call kNothing = [](ObjectPool<Caller>&) {};
constexpr Caller::Call kClear = [](ObjectPool<Caller>& pool) { pool.clear(); };
constexpr Caller::Call kRelease = [](ObjectPool<Caller>& pool) { pool.release_empty_chunks(); };

TEST(ObjectPoolOfCallers, IsClearedByADestructorThatClearOrDestroyRuns) {
  ObjectPool<Caller> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  for (const bool is_destroyed : {true, false}) {
    std::vector<Caller*> callers;
    for (int i = 0; i < 300; ++i)
      callers.push_back(pool.create(pool, i % 50 == 7 ? kClear : kNothing));
    if (is_destroyed) {
      pool.destroy(callers[107]);
    } else {
      pool.clear();
    }
    EXPECT_EQ(Caller::alive, 0);
    EXPECT_EQ(pool.size(), 0u);
    pool.check_invariants();
    std::set<Caller*> distinct;
    while (pool.available() != 0) distinct.insert(pool.create(pool, kNothing));
    EXPECT_EQ(distinct.size(), pool.capacity());
    pool.check_invariants();
    pool.clear();
  }
}

TEST(ObjectPoolOfCallers, ClearsEveryChunkThoughDestructorsReleaseEmptyOnes) {
  ObjectPool<Caller> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  std::vector<Caller*> callers;
  for (int i = 0; i < 1000; ++i) callers.push_back(pool.create(pool, kRelease));
  for (std::size_t i = 0; i < 64; ++i) pool.destroy(callers[i]);
  pool.clear();
  EXPECT_EQ(Caller::alive, 0);
  pool.check_invariants();
  const std::size_t capacity = pool.capacity();
  EXPECT_EQ(pool.release_empty_chunks(), capacity) << "now they go";
}

TEST(ObjectPoolOfCallers, ClearsEveryObjectOnceThoughDestructorsAddSlots) {
  constexpr Caller::Call reserve = [](ObjectPool<Caller>& pool) {
    // Each adds a chunk, so the table of chunks moves.
    EXPECT_TRUE(pool.reserve(pool.capacity() + 1));
  };
  ObjectPool<Caller> pool(Exhaustion::kGrow, Leftovers::kDestroy);
  for (int i = 0; i < 200; ++i) pool.create(pool, i % 20 == 7 ? reserve : kNothing);
  const std::size_t capacity = pool.capacity();
  pool.clear();
  EXPECT_EQ(Caller::alive, 0);
  EXPECT_EQ(pool.size(), 0u);
  EXPECT_EQ(pool.capacity(), capacity + 10);
  pool.check_invariants();
}

TYPED_TEST(ObjectPoolTest, StartsWithAMillionSlotsWithoutTouchingThem) {
  using Ints = Pool<TypeParam, int>;
  constexpr std::size_t kSlots = 1'000'000;
  constexpr unsigned char kMark = 0x5a;
  std::vector<unsigned char> buffer(Ints::buffer_bytes(kSlots), kMark);
  {
    Ints pool(buffer.data(), buffer.size(), Exhaustion::kReturnNull, Leftovers::kDestroy);
    EXPECT_GE(pool.available(), kSlots);
    EXPECT_NE(pool.create(7), nullptr);
    EXPECT_NE(pool.create(8), nullptr);
  }
  const auto written =
      static_cast<std::ptrdiff_t>(buffer.size()) - std::count(buffer.begin(), buffer.end(), kMark);
  EXPECT_GT(written, 0);
  EXPECT_LT(written, 64) << "two objects and their bookkeeping, nothing else";
}

TYPED_TEST(ObjectPoolTest, AgreesWithAModelUnderRandomOperations) {
  std::mt19937_64 random(seed_of_this_run());
  Counted::alive = 0;
  {
    Pool<TypeParam, Counted> pool(Exhaustion::kGrow, Leftovers::kDestroy);
    std::vector<std::pair<Counted*, int>> live;
    std::size_t wanted = 500;
    for (int step = 0; step < 6000; ++step) {
      if (step % 1000 == 0) wanted = random() % 1500;
      const auto dice = random() % 1000;
      if (dice == 0) {
        pool.release_empty_chunks();
      } else if (dice == 1 && random() % 4 == 0) {
        pool.clear();
        live.clear();
      } else if (random() % 100 < (live.size() < wanted ? 70u : 30u)) {
        const int value = static_cast<int>(random() % 1000);
        live.emplace_back(pool.create(value), value);
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        ASSERT_EQ(live.back().first->value, live.back().second);
        pool.destroy(live.back().first);
        live.pop_back();
      }
      ASSERT_EQ(pool.size(), live.size());
      ASSERT_EQ(static_cast<std::size_t>(Counted::alive), live.size());
      pool.check_invariants();
      if (step % 500 == 0) {
        std::multiset<int> expected;
        for (const auto& [object, value] : live) expected.insert(value);
        std::multiset<int> found;
        pool.for_each([&](Counted& object) { found.insert(object.value); });
        ASSERT_EQ(found, expected);
      }
    }
  }
  EXPECT_EQ(Counted::alive, 0);
}

static_assert(!std::is_copy_constructible_v<ObjectPool<int>>);
static_assert(std::is_nothrow_move_constructible_v<ObjectPool<int>>);
static_assert(!std::is_copy_assignable_v<ObjectPool<int>>);
static_assert(!std::is_copy_constructible_v<ObjectPool<int>::Handle>);

}  // namespace
}  // namespace strata
