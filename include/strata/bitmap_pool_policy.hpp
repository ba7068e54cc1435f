#pragma once

#include <strata/bitmap_pool_cursor.hpp>
#include <strata/detail/atomic_bitmap.hpp>
#if __STDC_HOSTED__
#include <strata/detail/thread_starts.hpp>
#else
#include <strata/detail/stack_starts.hpp>
#endif

#include <cstddef>
#include <cstdint>

namespace strata {

/// How a pool finds out where a thread should look first when the caller gives no cursor, and what
/// counts its steps. A policy of your own names two types:
///   Starts  cursor(pool, leaf_count, process) -> BitmapPoolCursor& or BitmapPoolCursor
///           note_freed(pool, leaf), called when the thread has given back a block of that word
///   Steps   load() and rmw(), called once per atomic load and per read-modify-write
///
/// Two names, so that translation units built with and without a hosted library can meet in one
/// program: their pools are different types.
#if __STDC_HOSTED__
struct HostedBitmapPoolPolicy {
  using Starts = detail::ThreadStarts;
  using Steps = detail::UncountedSteps;
};
using BitmapPoolPolicy = HostedBitmapPoolPolicy;
#else
struct FreestandingBitmapPoolPolicy {
  using Starts = detail::StackStarts;
  using Steps = detail::UncountedSteps;
};
using BitmapPoolPolicy = FreestandingBitmapPoolPolicy;
#endif

/// The free block with the lowest number comes first, whichever thread asks: blocks in use stay
/// close together at the start of the pool, memory behind them is never touched, and their numbers
/// stay small. A block is handed out when each one before it was taken at some instant of the call;
/// while no other thread is in the pool, it is the lowest of all that are free.
///
///     strata::BitmapPool<64, 4096, 0, 1, strata::LowestFreeFirst> pool;
///
/// The price: all threads meet in the words where the lowest free blocks are. So this is for one
/// thread at a time, or few; the usual policy keeps threads apart. With one thread a full word at
/// the start costs a search each time: a load for each level, or for each word of a pool that has
/// no levels (up to 15 words).
struct LowestFreeFirst {
  struct Starts {
    static constexpr BitmapPoolCursor cursor(const void*, std::size_t, std::uint32_t) noexcept {
      return {};
    }
    static constexpr void note_freed(const void*, std::size_t) noexcept {}
  };
  using Steps = detail::UncountedSteps;
};

}  // namespace strata
