#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "explain/explanation.h"

namespace strata::cli {

/// "<10 µs", "≥1000 s", "never".
std::string life_text(std::size_t bucket);

/// The median time to live; nothing if there are no objects.
std::string typical_life(const LifeCounts& lives);

/// part / whole; 0 if whole is 0.
double share_of(std::uint64_t part, std::uint64_t whole);

/// "1.2M calls of 4 threads in 3.2 s"
std::string calls_text(const Explanation& explanation);

/// Places sorted by what they hold at the peak, largest first, then by what they allocated.
std::vector<std::size_t> places_by_peak(const Explanation& explanation);

/// A few dozen lines for a terminal: totals, the places that hold the peak, and whatever is
/// remarkable.
/// \param width  the terminal's, for the table; nothing if it is none
std::string explain_text(const Explanation& explanation, std::size_t most_places, bool colour,
                         std::optional<std::size_t> width = {});

}  // namespace strata::cli
