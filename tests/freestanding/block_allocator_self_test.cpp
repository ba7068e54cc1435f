#include <strata/block_allocator.hpp>

#include "self_test.h"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this file shows that exceptions and RTTI are not needed: build it without"
#endif

#define CHECK(condition)               \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (false)

// A program without our library defines itself how a misuse ends it.
namespace strata::detail {
void misuse(const char*) noexcept { __builtin_trap(); }
void misuse(const char*, const void*, const char*) noexcept { __builtin_trap(); }
}  // namespace strata::detail

namespace {

unsigned char memory[4096];

template <class Blocks>
int fill_and_empty(std::size_t bytes, std::size_t alignment) {
  const char* reason = nullptr;
  auto made = Blocks::try_create(memory + 1, sizeof(memory) - 1, bytes, alignment, &reason);
  CHECK(made && reason == nullptr);
  Blocks& blocks = *made;
  for (int round = 0; round < 3; ++round) {
    unsigned char* last = nullptr;
    while (auto* block = static_cast<unsigned char*>(blocks.allocate())) {
      CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
      CHECK(block > memory && block + bytes <= memory + sizeof(memory));
      last = block;
    }
    CHECK(blocks.in_use() == blocks.capacity() && blocks.owns(last));
    for (std::size_t i = blocks.capacity(); i-- != 0; last -= blocks.stride_bytes()) {
      blocks.deallocate(last);
    }
    CHECK(blocks.in_use() == 0);
    blocks.check_invariants();
    blocks.reset();
  }
  CHECK(!Blocks::try_create(memory, 8, bytes, alignment, &reason) && reason != nullptr);
  return 0;
}

}  // namespace

extern "C" int strata_block_self_test() {
  for (std::size_t bytes : {8u, 20u, 64u, 100u}) {
    for (std::size_t alignment : {4u, 16u, 64u}) {
      if (int line = fill_and_empty<strata::BlockAllocator>(bytes, alignment)) return line;
      if (int line = fill_and_empty<strata::UncheckedBlockAllocator>(bytes, alignment)) return line;
    }
  }
  return 0;
}
