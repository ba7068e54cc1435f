#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "explain/explanation.h"

namespace strata::cli {

/// "<10 us", "≥1000 s", "never".
std::string life_text(std::size_t bucket);

/// The time to live that half of all did not exceed; nothing if there is none.
std::string typical_life(const LifeCounts& lives);

/// 0 of nothing.
double share_of(std::uint64_t part, std::uint64_t whole);

/// "1.2M calls of 4 threads in 3.2 s"
std::string calls_text(const Explanation& explanation);

/// The name without its middle if it has more bytes than this.
std::string shortened(const std::string& name, std::size_t most_bytes);

/// Places by what they hold at the peak, the largest first; then by what they allocated.
std::vector<std::size_t> places_by_peak(const Explanation& explanation);

/// A few dozen lines for a terminal: what there was in all, the places that hold the peak, and what
/// is remarkable.
std::string explain_text(const Explanation& explanation, std::size_t most_places, bool colour);

}  // namespace strata::cli
