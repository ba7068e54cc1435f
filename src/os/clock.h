#pragma once

#include <cstdint>

/// \file  Time, of two clocks.

namespace strata::os {

/// Nanoseconds since an arbitrary start; never goes back.
/// \cost  one vDSO call.
std::uint64_t monotonic_ns() noexcept;

/// Nanoseconds since the beginning of 1970; as right as the machine's clock.
/// \cost  one vDSO call.
std::uint64_t wall_clock_ns() noexcept;

}  // namespace strata::os
