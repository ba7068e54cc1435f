#include "recorder/settings.h"

#include <algorithm>

#include "os/environment.h"
#include "shared/record_settings.h"

namespace strata::recorder {
namespace {

std::uint64_t number(const char* name) noexcept {
  std::uint64_t value = 0;
  const char* text = os::environment_variable(name);
  for (; text != nullptr && *text >= '0' && *text <= '9'; ++text) {
    value = value * 10 + static_cast<std::uint64_t>(*text - '0');
  }
  return value;
}

}  // namespace

void Settings::read() noexcept {
  using namespace record_settings;
  // A program with foreign rights (set-user-ID and the like) must not write files where others say.
  if (os::has_foreign_rights()) return;
  file = os::environment_variable(kFile);
  if (file != nullptr && file[0] == '\0') file = nullptr;
  stack_frames = static_cast<std::uint32_t>(std::min<std::uint64_t>(number(kStacks), kMostFrames));
  after_ms = number(kAfterMs);
  for_ms = number(kForMs);
  signal = static_cast<int>(number(kSignal));
  drops = number(kDrop) != 0;
}

}  // namespace strata::recorder
