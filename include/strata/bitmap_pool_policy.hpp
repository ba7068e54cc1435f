#pragma once

#include <strata/detail/atomic_bitmap.hpp>
#if __STDC_HOSTED__
#include <strata/detail/thread_starts.hpp>
#else
#include <strata/detail/stack_starts.hpp>
#endif

namespace strata {

/// How a pool finds out where a thread should look first when the caller gives no cursor, and what
/// counts its steps. A policy of your own names two types:
///   Starts  cursor(pool, leaf_count, process) -> BitmapPoolCursor& or BitmapPoolCursor
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

}  // namespace strata
