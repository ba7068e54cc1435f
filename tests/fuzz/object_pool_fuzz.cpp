// ObjectPool: each object is constructed once and destroyed once, even if the pool grows or moves.
#include <strata/object_pool.hpp>

#include <memory>
#include <optional>
#include <vector>

#include "choices.h"

namespace {

using namespace strata;
using fuzz::require;

std::size_t g_live;

struct Object {
  explicit Object(std::uint64_t with) : value(with), self(this) {
    ++g_live;
    if (with % 61 == 60) {
      --g_live;
      throw with;
    }
  }
  ~Object() {
    require(self == this, "an object is destroyed where it was made, once");
    self = nullptr;
    --g_live;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  std::uint64_t value;
  Object* self;
};

template <typename Pool>
void run(fuzz::Choices& choices, Pool pool) {
  std::vector<Object*> live;
  for (std::uint64_t i = 0; !choices.is_over(); ++i) {
    const std::uint8_t action = choices.byte();
    if (action < 120) {
      try {
        if (Object* object = pool.create(i)) {
          require(object->value == i && pool.owns(object), "an object is the pool's");
          live.push_back(object);
        } else {
          require(pool.available() == 0, "only a full pool creates nothing");
        }
      } catch (std::uint64_t) {
      } catch (const std::bad_alloc&) {
        require(pool.available() == 0, "only a full pool throws");
      }
    } else if (action < 220) {
      if (live.empty()) continue;
      const std::size_t index = choices.below(live.size());
      pool.destroy(live[index]);
      live[index] = live.back();
      live.pop_back();
    } else if (action < 224) {
      pool.clear();
      live.clear();
    } else if (action < 230) {
      pool.release_empty_chunks();
    } else if (action < 235) {
      pool.reserve(choices.below(500));
    } else if (action < 240) {
      Pool other = std::move(pool);
      require(pool.empty(), "a moved pool is empty");
      pool = std::move(other);
    } else if (action < 250) {
      std::uint64_t chosen = choices.byte();
      pool.for_each([&](Object& object) {
        if (object.value % 256 != chosen) return;
        std::erase(live, &object);
        pool.destroy(&object);
      });
    } else {
      std::size_t seen = 0;
      for (const Object& object : pool) {
        require(object.self == &object, "an iterator meets live objects");
        ++seen;
      }
      require(seen == live.size(), "an iterator meets all of them");
      pool.check_invariants();
    }
    require(pool.size() == live.size() && g_live == live.size(), "objects are counted");
  }
}

template <typename Pool>
void make(fuzz::Choices& choices) {
  const auto exhaustion = static_cast<Exhaustion>(choices.below(3));
  const std::size_t size = choices.size(5000);
  const char* reason = nullptr;
  std::unique_ptr<char[]> buffer;
  std::optional<Pool> made;
  if (choices.flag()) {
    const std::size_t whole = size > 100'000 ? 100'000 : size;
    buffer.reset(new char[whole]);
    made = Pool::try_create(buffer.get(), whole, exhaustion, Leftovers::kDestroy, &reason);
  } else {
    made = Pool::try_create(size > 1'000'000 ? ~std::size_t{0} / 16 : size, exhaustion,
                            Leftovers::kDestroy, &reason);
  }
  require(made.has_value() == (reason == nullptr), "no pool has a reason");
  if (made) run(choices, *std::move(made));
  made.reset();
  require(g_live == 0, "a pool's objects end with it");
}

}  // namespace

STRATA_FUZZ(choices) {
  switch (choices.below(3)) {
    case 0:
      return make<ObjectPool<Object, Checks::kAlways, FreeSlots::kUntouched>>(choices);
    case 1:
      return make<ObjectPool<Object, Checks::kAlways, FreeSlots::kPoisoned>>(choices);
    default:
      return make<ObjectPool<Object, Checks::kNever, FreeSlots::kUntouched>>(choices);
  }
}
