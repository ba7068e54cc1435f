#pragma once

#include <cstdint>

namespace strata::recorder {

/// The settings that `strata record` passes in the environment (shared/record_settings.h).
struct Settings {
  const char* file = nullptr;      ///< nullptr: no recording
  std::uint32_t stack_frames = 0;  ///< maximum number of frames; 0: no stacks
  std::uint64_t after_ms = 0;
  std::uint64_t for_ms = 0;  ///< 0: until the program ends
  int signal = 0;            ///< starts the recording, and stops it; 0: none
  bool drops = false;  ///< drop calls when the disk is slower, instead of making the program wait

  /// Reads the environment. Missing or malformed values keep their defaults.
  void read() noexcept;
};

}  // namespace strata::recorder
