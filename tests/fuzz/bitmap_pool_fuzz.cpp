// BitmapPool in memory of any shape, and attaching to memory that somebody has damaged.
#include <strata/bitmap_pool_view.hpp>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "shelf.h"

namespace {

using namespace strata;
using fuzz::require;
using Pool = BitmapPoolView<>;

struct Shelf {
  Pool pool;

  void allocate(fuzz::Choices& choices, fuzz::Blocks& model) {
    void* batch[8];
    std::size_t count = 1;
    if (choices.flag()) {
      count = pool.allocate_batch(batch, choices.below(8));
    } else if ((batch[0] = pool.allocate()) == nullptr) {
      count = 0;
      require(model.count() == pool.capacity(), "a pool is exhausted when each block is taken");
    }
    for (std::size_t i = 0; i < count; ++i) {
      require(pool.owns(batch[i]) && pool.is_in_use(batch[i]), "what is handed out is in use");
      require(pool.block(pool.index_of(batch[i])) == batch[i], "a block has a number");
      model.add(batch[i], pool.block_bytes(), pool.shape().stride, pool.block_alignment());
    }
  }
  void deallocate(const Block& block) {
    require(pool.deallocate(block.address), "a live block can be freed");
    require(!pool.deallocate(block.address), "a free block cannot");
  }
  void step(fuzz::Choices& choices, fuzz::Blocks& model) {
    switch (choices.below(4)) {
      case 0:
        require(!pool.deallocate(&pool), "a foreign block cannot be freed");
        return;
      case 1:
        if (pool.block_bytes() > 1 && !model.is_empty())
          require(!pool.deallocate(model.all()[0].address + 1), "nor can the middle of one");
        return;
      case 2:
        return pool.repair();
      default: {
        std::size_t seen = 0;
        pool.for_each_in_use([&](void*) { ++seen; });
        require(seen == model.count() && pool.in_use() == seen, "blocks in use are counted");
        const char* const broken = pool.broken_invariant();
        require(broken == nullptr, broken);
      }
    }
  }
};

struct Free {
  void operator()(void* p) const { std::free(p); }
};

}  // namespace

STRATA_FUZZ(choices) {
  BitmapPoolShape shape;
  shape.block_bytes = choices.size(2000);
  shape.capacity = choices.size(3000);
  shape.alignment = choices.flag() ? choices.alignment(12) : choices.size(100);
  shape.min_leaves = choices.size(100);
  const std::size_t bytes = Pool::required_bytes(shape);
  if (bytes == 0 || bytes > std::size_t{4} << 20) return;
  const std::size_t alignment = Pool::required_alignment(shape);
  const std::unique_ptr<void, Free> memory(std::aligned_alloc(alignment, bytes));
  require(memory != nullptr, "the machine has memory");
  BitmapPoolError error{};
  Pool pool = Pool::try_create(memory.get(), bytes, shape, &error);
  require(static_cast<bool>(pool) && error == BitmapPoolError::kNone, "a possible pool is made");
  fuzz::Choices calls(nullptr, 0);
  const std::string_view damage = choices.text(choices.below(16));
  const std::size_t place = choices.below(64);
  fuzz::exercise(choices, Shelf{Pool::try_attach(memory.get(), bytes)});
  // From now on the pool's description may say anything: try_attach() must believe nothing.
  if (place + damage.size() > bytes) return;
  std::memcpy(static_cast<char*>(memory.get()) + place, damage.data(), damage.size());
  pool = Pool::try_attach(memory.get(), bytes, &error);
  require(static_cast<bool>(pool) == (error == BitmapPoolError::kNone), "no pool has a reason");
  require(std::strlen(sentence_of(error)) != 0, "a reason has a sentence");
  if (!pool) return;
  require(Pool::required_bytes({pool.block_bytes(), pool.capacity(), pool.shape().alignment,
                                pool.shape().min_leaves}) <= bytes,
          "a pool that was attached lies in its memory");
  pool.repair();
  while (void* const p = pool.allocate()) std::memset(p, 1, pool.block_bytes());
}
