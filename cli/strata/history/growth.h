#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "history/history.h"

namespace strata::cli {

/// Finds what grows by steps: a vector that makes its next buffer, moves over and frees the one
/// before, or a realloc to more. A slot whose contents are replaced looks the same for a step, and
/// by chance for another; so a step without realloc counts as growth from its second in a row.
/// \cost  Memory for each live object that grew, and for each place in each thread.
class GrowthFinder {
 public:
  static constexpr std::uint32_t kNoPlace = ~std::uint32_t{0};
  /// In a row, of one object's growth, without a realloc: fewer say nothing.
  static constexpr std::uint32_t kLeastSteps = 2;

  /// Something larger took the place of an object.
  struct Step {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t bytes = 0;   ///< of `to`
    std::uint32_t number = 1;  ///< of the steps that led here, this one included
    bool is_resize = false;    ///< by realloc: there is no doubt
  };

  /// To be asked once for each event.
  /// \param born   place of the object that begins; kNoPlace: it is not looked at
  /// \param ended  place of the object that ends, likewise; what a realloc ends may be of any
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
