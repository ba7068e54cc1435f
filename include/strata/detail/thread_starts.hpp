#pragma once

#include <strata/bitmap_pool_cursor.hpp>
#include <strata/detail/bits.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Where a thread starts in a pool, remembered in thread-local memory: its number, and a cursor for
/// each of the few pools it used last. A cursor that was forgotten, or that belongs to a pool which
/// is gone, costs a longer search once and nothing else. Needs no constructor and no destructor, so
/// it is there before main, in destructors of other thread-locals and in signal handlers; but for
/// the first use by a thread of a library that dlopen() loaded, where the C library allocates it.
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

  /// The thread gave a block of this word back: its cursor is told, if it has one.
  static void note_freed(const void* pool, std::size_t leaf) noexcept {
    Slot& slot = slot_of(pool);
    if (slot.pool == pool) slot.cursor.note_freed(leaf);
  }

 private:
  /// Pools that a thread uses in turn without forgetting; two may share a slot, which only costs.
  static constexpr std::size_t kSlots = 8;
  // Two distances at which pools typically lie: next to each other, and in mappings of their own.
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
    // relaxed: a number that no other thread has is all that is asked of it.
    if (number_ == 0) number_ = next_number_.fetch_add(1, std::memory_order_relaxed) + 1;
    slot.pool = pool;
    slot.cursor = BitmapPoolCursor::nth(number_ - 1, leaf_count, process);
  }

  static inline std::atomic<std::uint32_t> next_number_{0};
  static inline thread_local std::uint32_t number_ = 0;  // 1, 2, 3 …; 0 before the first use
  static inline thread_local Slot slots_[kSlots] = {};
};

}  // namespace strata::detail
