#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::recorder {

/// What `strata record` asks for, in the environment of the recorded program.
struct Settings {
  static constexpr std::size_t kMostFrames = 128;

  /// Names of the variables; `strata record` writes them.
  static constexpr const char* kFile = "STRATA_RECORD";
  static constexpr const char* kStacks = "STRATA_RECORD_STACKS";
  static constexpr const char* kAfterMs = "STRATA_RECORD_AFTER_MS";
  static constexpr const char* kForMs = "STRATA_RECORD_FOR_MS";
  static constexpr const char* kSignal = "STRATA_RECORD_SIGNAL";
  static constexpr const char* kDrop = "STRATA_RECORD_DROP";

  /// A path; %p stands for the process's number. nullptr: no recording. Who finds the file there
  /// already makes another beside it.
  const char* file = nullptr;
  std::uint32_t stack_frames = 0;  ///< at most so many; 0: no stacks
  std::uint64_t after_ms = 0;
  std::uint64_t for_ms = 0;  ///< 0: to the end
  int signal = 0;            ///< begins the recording, and ends it; 0: none
  bool drops = false;        ///< where the disk is slower: rather than let the program wait

  /// What is not there, or not understood, is as above.
  void read() noexcept;
};

}  // namespace strata::recorder
