#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/explanation.h"

namespace strata::cli {

/// What can be done about a place.
enum class Remedy {
  kArena,    ///< its objects die together
  kBlocks,   ///< one size, one thread
  kBitmap,   ///< one size, many threads
  kHeap,     ///< many sizes whose memory is reused again and again, one thread
  kHeaps,    ///< the same, many threads
  kReserve,  ///< it grows by steps
  kReuse,    ///< short-lived, again and again
};

/// A place whose pattern fits an allocator of the toolkit, or a habit. Trials measure whether it
/// helps.
struct Candidate {
  std::uint32_t place = 0;
  Remedy remedy = Remedy::kArena;
  std::uint32_t threads = 1;  ///< of the program

  /// The name that strata-cell uses (cell/replay/routes.h).
  const char* route() const noexcept;
  bool is_reserved() const noexcept { return remedy == Remedy::kReserve; }
  /// The pattern in numbers, a sentence.
  std::string pattern(const PlaceSums& sums) const;
  /// The change, in a few lines of C++.
  std::string change(const PlaceSums& sums) const;

 private:
  std::string code(const PlaceSums& sums) const;
};

/// All candidates among the places that cost most; the costliest place first. A place may have
/// several.
std::vector<Candidate> find_candidates(const Explanation& explanation, std::size_t most_places);

}  // namespace strata::cli
