#pragma once

#include <strata/bitmap_pool_cursor.hpp>
#include <strata/detail/bits.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Where a thread starts in a pool, kept in thread-local memory: its number, and a cursor for each
/// of the few pools it used last. A forgotten cursor, or one of a pool which is gone, costs one
/// longer search and nothing else. Needs no constructor or destructor, so it works before main, in
/// destructors of other thread-locals and in signal handlers; except that in a library which
/// dlopen() loaded, the C library allocates it at a thread's first use.
/// \cost  One comparison as a rule.
class ThreadStarts {
 public:
  /// The calling thread's cursor for the pool known by the address `pool`.
  static BitmapPoolCursor& cursor(const void* pool, std::size_t leaf_count,
                                  std::uint32_t process) noexcept {
    Slot& slot = slot_of(pool);
    if (slot.pool != pool) forget_and_start(slot, pool, leaf_count, process);
    return slot.cursor;
  }

  /// Notes in the thread's cursor, if it has one, that it freed a block of this word.
  static void note_freed(const void* pool, std::size_t leaf) noexcept {
    Slot& slot = slot_of(pool);
    if (slot.pool == pool) slot.cursor.note_freed(leaf);
  }

 private:
  /// Pools that a thread uses in turn without forgetting; two may share a slot, at a cost in time
  /// only.
  static constexpr std::size_t kSlots = 8;
  // Two typical distances of pools: next to each other, and in mappings of their own.
  static constexpr std::size_t kPoolAlignment = 64;
  static constexpr std::size_t kPageAlignment = 4096;

  struct Slot {
    const void* pool;
    BitmapPoolCursor cursor;
  };

  static Slot& slot_of(const void* pool) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(pool);
    return slots_[(address / kPoolAlignment ^ address / kPageAlignment) % kSlots];
  }

#if defined(__GNUC__)
  [[gnu::noinline]]
#endif
  static void
  forget_and_start(Slot& slot, const void* pool, std::size_t leaf_count,
                   std::uint32_t process) noexcept {
    // relaxed: the number need only be unique.
    if (number_ == 0) number_ = next_number_.fetch_add(1, std::memory_order_relaxed) + 1;
    slot.pool = pool;
    slot.cursor = BitmapPoolCursor::nth(number_ - 1, leaf_count, process);
  }

  static inline std::atomic<std::uint32_t> next_number_{0};
  static inline thread_local std::uint32_t number_ = 0;  // 1, 2, 3 …; 0 before the first use
  static inline thread_local Slot slots_[kSlots] = {};
};

}  // namespace strata::detail
