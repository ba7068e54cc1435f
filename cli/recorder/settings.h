#pragma once

#include <cstdint>

namespace strata::recorder {

/// What `strata record` asks for (shared/record_settings.h).
struct Settings {
  const char* file = nullptr;      ///< nullptr: no recording
  std::uint32_t stack_frames = 0;  ///< at most so many; 0: no stacks
  std::uint64_t after_ms = 0;
  std::uint64_t for_ms = 0;  ///< 0: to the end
  int signal = 0;            ///< begins the recording, and ends it; 0: none
  bool drops = false;        ///< where the disk is slower: rather than let the program wait

  /// What is not there, or not understood, is as above.
  void read() noexcept;
};

}  // namespace strata::recorder
