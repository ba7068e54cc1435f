#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "profile/symbols.h"
#include "shared/trace/reader.h"

namespace strata::cli {

/// Where objects come from: a line of the program.
struct PlaceName {
  /// Who called for a share of what came from there, innermost first.
  struct Callers {
    std::vector<Line> lines;
    double share = 0;  ///< of the bytes at the program's peak; of all, where none were live then
  };
  Line line;
  std::vector<Callers> callers;  ///< who called for most, the most first
};

/// Finds the place of a stack while a trace is read: the innermost line that is not of the standard
/// library, as `strata profile` counts it.
class Places {
 public:
  /// \param skipped  functions to look past, too: a program's own wrappers of malloc
  Places(const trace::Reader& reader, std::vector<std::string> skipped)
      : reader_(reader), skipped_(std::move(skipped)) {}

  /// \cost  A lookup, once a stack was seen.
  std::uint32_t of(std::uint32_t stack) {
    return stack < known_.size() && known_[stack] != kUnknown ? known_[stack] : find(stack);
  }

  const std::vector<PlaceName>& names() const noexcept { return names_; }
  /// A sentence for each file that was replaced since the recording, and for each function to look
  /// past that was not met.
  std::vector<std::string> notes() const;
  /// Names the callers of one of the place's stacks. Those that read alike are one.
  void add_callers(std::uint32_t place, std::uint32_t stack, double share);
  /// By stack: whether its place is this one.
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
