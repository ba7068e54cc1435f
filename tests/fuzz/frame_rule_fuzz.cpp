// The reader of unwind tables never reads outside the two entries it is given, whatever they
// contain, and reads the same twice.
#include <sanitizer/asan_interface.h>

#include <cstring>
#include <vector>

#include "choices.h"
#include "os/frame_rule.h"

namespace {

constexpr std::size_t kGap = 64;

/// Appends an entry to the section: its length, `second` (where its common entry is), its body.
std::size_t put(std::vector<unsigned char>& section, std::size_t at, std::uint32_t second,
                std::string_view body) {
  const auto bytes = static_cast<std::uint32_t>(body.size() + sizeof second);
  section.resize(at + sizeof bytes + bytes + kGap);
  std::memcpy(section.data() + at, &bytes, sizeof bytes);
  std::memcpy(section.data() + at + sizeof bytes, &second, sizeof second);
  std::memcpy(section.data() + at + 2 * sizeof bytes, body.data(), body.size());
  return at + sizeof bytes + bytes;
}

}  // namespace

STRATA_FUZZ(choices) {
  using namespace strata;
  const std::uintptr_t function = 0x10000;
  const std::uintptr_t pc = function + choices.below(1000);
  const std::string_view common = choices.text(choices.below(200));
  std::vector<unsigned char> section;
  section.reserve(100'000);
  const std::size_t common_end = put(section, 0, 0, common);
  const std::size_t own = (common_end + kGap + 7) / 8 * 8;
  section.resize(own);
  const std::size_t own_end =
      put(section, own, static_cast<std::uint32_t>(own + 4), choices.text(50'000));
  // A copy of exactly this length, whose end the sanitizer knows. The gap between the two entries
  // is forbidden.
  std::vector<unsigned char> exact(section.begin(),
                                   section.begin() + static_cast<std::ptrdiff_t>(own_end));
  const std::size_t gap = (common_end + 7) / 8 * 8;
  ASAN_POISON_MEMORY_REGION(exact.data() + gap, own - gap);
  const os::FrameRule rule = os::read_frame_rule(exact.data() + own, function, pc);
  const os::FrameRule again = os::read_frame_rule(exact.data() + own, function, pc);
  ASAN_UNPOISON_MEMORY_REGION(exact.data() + gap, own - gap);
  fuzz::require(std::memcmp(&rule, &again, sizeof rule) == 0, "a rule does not change");
  fuzz::require(rule.return_words <= 0 && rule.frame_words <= 0,
                "what is saved lies below the caller's frame");
}
