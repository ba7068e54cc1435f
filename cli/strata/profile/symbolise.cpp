#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <unordered_map>

#include "profile/symbols.h"

namespace strata::cli {
namespace {

// The C library compiles patterns recursively. Real profiles have patterns of some hundred bytes.
constexpr std::size_t kLongestPattern = 8192;

/// A pattern that must match a whole text. Invalid or absurdly long patterns match nothing.
class WholePattern {
 public:
  explicit WholePattern(const std::string& pattern)
      : is_good_(pattern.size() <= kLongestPattern &&
                 ::regcomp(&compiled_, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) ==
                     0) {}
  ~WholePattern() {
    if (is_good_) ::regfree(&compiled_);
  }
  WholePattern(const WholePattern&) = delete;
  WholePattern& operator=(const WholePattern&) = delete;

  bool matches(const std::string& text) const {
    return is_good_ && ::regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t compiled_{};
  bool is_good_;
};

/// Removes the allocator's own frames from every sample: the innermost ones, up to the first
/// foreign frame. A name of its own further out is a template in the program that calls the
/// program's code.
void drop_own_frames(Profile& profile) {
  if (profile.drop_frames.empty()) return;
  const WholePattern own(profile.drop_frames);
  std::unordered_map<std::string, bool> known;
  const auto is_own = [&](const Line& line) {
    const auto [entry, is_new] = known.emplace(line.function, false);
    if (is_new) entry->second = own.matches(line.function);
    return entry->second;
  };
  // Of a location's inlined lines, the first ones may be our own.
  std::vector<std::size_t> own_lines(profile.locations.size());
  for (std::size_t i = 0; i < profile.locations.size(); ++i) {
    const std::vector<Line>& lines = profile.locations[i].lines;
    own_lines[i] =
        static_cast<std::size_t>(std::ranges::find_if_not(lines, is_own) - lines.begin());
  }
  std::vector<bool> is_cut(profile.locations.size());
  for (Profile::Sample& sample : profile.samples) {
    auto first = std::ranges::find_if(sample.locations, [&](std::size_t location) {
      return own_lines[location] != profile.locations[location].lines.size();
    });
    // A stack of only own frames keeps its outermost frame, so that it belongs to a function.
    if (first == sample.locations.end()) {
      if (first != sample.locations.begin()) --first;
    } else {
      is_cut[*first] = true;
    }
    sample.locations.erase(sample.locations.begin(), first);
  }
  for (std::size_t i = 0; i < profile.locations.size(); ++i) {
    std::vector<Line>& lines = profile.locations[i].lines;
    if (is_cut[i])
      lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(own_lines[i]));
  }
}

}  // namespace

std::vector<std::string> symbolise(Profile& profile) {
  SymbolFiles files("profiled");
  for (Profile::Location& location : profile.locations) {
    if (!location.lines.empty()) continue;
    if (location.mapping == Profile::kNone) {
      location.lines.push_back({fmt::format("{:#x}", location.address), "", 0});
      continue;
    }
    const Profile::Mapping& mapping = profile.mappings[location.mapping];
    location.lines = files.lines_at(mapping.file, mapping.build_id,
                                    location.address - mapping.start + mapping.offset);
  }
  drop_own_frames(profile);
  return files.notes();
}

}  // namespace strata::cli
