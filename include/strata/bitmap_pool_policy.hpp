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

/// How a pool decides where a thread searches first if the caller passes no cursor, and what counts
/// its steps. A policy of your own names two types:
///   Starts  cursor(pool, leaf_count, process) -> BitmapPoolCursor& or BitmapPoolCursor
///           note_freed(pool, leaf), called when the thread has freed a block of that word
///   Steps   load() and rmw(), called once per atomic load and per read-modify-write
///
/// Two names, so that one program can link translation units built with and without a hosted
/// library: their pools are different types.
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

/// Hands out the free block with the lowest number, whichever thread asks: blocks in use stay close
/// together at the start of the pool, memory behind them is never touched, and their numbers stay
/// small. Each block before the one handed out was taken at some instant of the call; while no
/// other thread is in the pool, it is the lowest free one.
///
///     strata::BitmapPool<64, 4096, 0, 1, strata::LowestFreeFirst> pool;
///
/// The price: all threads contend for the words with the lowest free blocks. So this is for one
/// thread at a time, or few; the usual policy keeps threads apart. Even with one thread, a full
/// word at the start costs a search each time: a load for each level, or for each word of a pool
/// without levels (up to 15 words).
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
