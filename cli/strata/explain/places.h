#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profile/symbols.h"
#include "shared/trace/reader.h"

namespace strata::cli {

/// Where objects are allocated: a line of the program.
struct PlaceName {
  /// The callers of a share of a place's allocations, innermost first.
  struct Callers {
    std::vector<Line> lines;
    double share = 0;  ///< of the bytes at the program's peak; if none were live then, of all
  };
  Line line;
  std::vector<Callers> callers;  ///< largest share first
};

/// Maps stacks to places while a trace is read. A place is the innermost line outside the standard
/// library, as in `strata profile`.
class Places {
 public:
  /// Stands for the line of calls without a stack.
  static constexpr const char* kNoStack = "no stack was recorded";

  /// \param skipped  more functions to skip, such as a program's wrappers of malloc
  Places(const trace::Reader& reader, std::vector<std::string> skipped)
      : reader_(reader), skipped_(std::move(skipped)) {}

  /// \cost  A lookup if the stack was seen before.
  std::uint32_t of(std::uint32_t stack) {
    return stack < known_.size() && known_[stack] != kUnknown ? known_[stack] : find(stack);
  }

  const std::vector<PlaceName>& names() const noexcept { return names_; }
  /// A sentence for each file replaced since the recording, and for each skipped function that
  /// never occurred.
  std::vector<std::string> notes() const;
  /// Adds the callers of one of the place's stacks; merges callers with the same text.
  void add_callers(std::uint32_t place, std::uint32_t stack, double share);
  /// By stack: whether it belongs to this place.
  std::vector<bool> stacks_of(std::uint32_t place) const;

 private:
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  static constexpr std::size_t kMostCallers = 8;

  std::uint32_t find(std::uint32_t stack);
  const std::vector<Line>& lines_of(std::uint32_t node);
  std::vector<Line> look_up(std::uint64_t address, std::uint32_t module);
  bool is_passed_over(const Line& line) const;
  std::string standard_library_of(std::uint32_t node) const;

  const trace::Reader& reader_;
  std::vector<std::string> skipped_;
  std::vector<std::uint32_t> known_;  ///< by stack
  std::vector<PlaceName> names_;
  std::map<std::string, std::uint32_t> numbers_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<Line>> lines_;
  SymbolFiles files_{"recorded"};
};

}  // namespace strata::cli
