#pragma once

#include <strata/bitmap_pool_cursor.hpp>

#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Where a thread starts in a pool, for programs without thread-local memory: the stack that they
/// run on tells threads, tasks and interrupt handlers apart. Nothing is remembered, so a thread
/// that holds many blocks searches a little longer than with a cursor of its own; two stacks may
/// map to the same word, which costs a race now and then.
class StackStarts {
 public:
  static BitmapPoolCursor cursor(const void*, std::size_t leaf_count, std::uint32_t) noexcept {
    // 1 KiB is a small task's stack: frames of one task mostly stay within one start.
    const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) >> 10;
    // Multiplicative hashing by 2^32 / golden ratio; the upper bits are the well-mixed ones.
    const auto mixed = static_cast<std::uint32_t>(stack) * 0x9e3779b9u;
    BitmapPoolCursor cursor;
    cursor.leaf() = static_cast<std::size_t>((std::uint64_t{mixed} * leaf_count) >> 32);
    return cursor;
  }
  static void note_freed(const void*, std::size_t) noexcept {}
};

}  // namespace strata::detail
