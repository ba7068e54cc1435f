#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "history/history.h"

namespace strata::cli {

/// Finds objects that grow in steps: a vector allocates a larger buffer, moves its elements and
/// frees the old one, or a realloc enlarges the object. A slot whose contents are replaced looks
/// like one step, and by chance like two; so without realloc, growth counts from the second step in
/// a row.
/// \cost  Memory per live object that grew, and per place and thread.
class GrowthFinder {
 public:
  static constexpr std::uint32_t kNoPlace = ~std::uint32_t{0};
  /// The fewest steps in a row that count as growth, without a realloc.
  static constexpr std::uint32_t kLeastSteps = 2;

  /// A larger object replaced an object.
  struct Step {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t bytes = 0;   ///< the size of `to`
    std::uint32_t number = 1;  ///< in the chain, including this one
    bool is_resize = false;    ///< a realloc: certain
  };

  /// Call once for each event.
  /// \param born   place of the new object; kNoPlace: ignore it
  /// \param ended  place of the ended object, likewise; what a realloc ends may be of any place
  std::optional<Step> find(const History& history, std::uint32_t born, std::uint32_t ended);

 private:
  struct Newest {
    std::uint64_t object = trace::kNoObject;
    std::uint64_t bytes = 0;
  };
  Newest& newest_of(std::uint32_t thread, std::uint32_t place);
  Step count(Step step);

  std::vector<std::vector<Newest>> newest_;  ///< by thread and place
  std::unordered_map<std::uint64_t, std::uint32_t> steps_;
};

}  // namespace strata::cli
