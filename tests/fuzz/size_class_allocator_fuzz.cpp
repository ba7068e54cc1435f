// SizeClassAllocator with any list of classes, on pages of its own or of an arena.
#include <strata/size_class_allocator.hpp>

#include <optional>
#include <vector>

#include "shelf.h"

namespace {

using namespace strata;
using fuzz::require;

struct Shelf {
  SizeClassAllocator classes;

  void allocate(fuzz::Choices& choices, fuzz::Blocks& model) {
    const std::size_t bytes = choices.size(classes.largest_class() + 8);
    const bool is_aligned = choices.flag();
    const std::size_t alignment = is_aligned ? choices.alignment(13) : 1;
    void* const p =
        is_aligned ? classes.try_allocate(bytes, alignment) : classes.try_allocate(bytes);
    if (p == nullptr) return;
    require(bytes <= classes.largest_class(), "no block is larger than the largest class");
    require(classes.owns(p), "an allocator owns its blocks");
    model.add(p, bytes, classes.class_size_of(p), alignment);
  }
  void deallocate(const Block& block) {
    if (block.tag % 2 == 0) return classes.deallocate(block.address);
    classes.deallocate(block.address, classes.class_size_of(block.address));
  }
  void step(fuzz::Choices& choices, fuzz::Blocks& model) {
    switch (choices.below(4)) {
      case 0:
        classes.reset();
        return model.forget_all();
      case 1: {
        SizeClassAllocator other = std::move(classes);
        classes = std::move(other);
        return;
      }
      case 2:
        return classes.deallocate(nullptr);
      default: {
        std::size_t in_use = 0;
        for (std::size_t i = 0; i < classes.class_count(); ++i) in_use += classes.in_use(i);
        require(in_use == model.count(), "blocks in use are counted");
        classes.check_invariants();
      }
    }
  }
};

}  // namespace

STRATA_FUZZ(choices) {
  std::vector<std::size_t> classes(choices.below(12));
  std::size_t last = 0;
  for (std::size_t& bytes : classes) {
    bytes = choices.flag() ? choices.size(4096) : last + 1 + choices.below(256);
    last = bytes;
  }
  const std::size_t run = choices.size(1 << 18);
  if (run > std::size_t{1} << 24 && run <= SizeClassAllocator::kMaxRunBytes) return;  // takes long
  std::optional<PageArena> arena;
  if (choices.flag()) arena.emplace(std::size_t{1} << 22);
  const char* reason = nullptr;
  auto made = SizeClassAllocator::try_create(classes.data(), classes.size(), run,
                                             arena ? &*arena : nullptr, &reason);
  require(made.has_value() == (reason == nullptr), "no allocator has a reason");
  if (made) fuzz::exercise(choices, Shelf{*std::move(made)});
}
