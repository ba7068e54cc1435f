#pragma once

/// \file  The environment variables through which `strata record` configures the recorder. Programs
/// started by the recorded one inherit them. Numbers are decimal.

namespace strata::record_settings {

inline constexpr const char* kLibrary = "libstrata-record.so";

/// The trace file; %p stands for the process ID. If the file exists, the process writes another
/// one, with its process ID appended to the name. Without this variable nothing is recorded.
inline constexpr const char* kFile = "STRATA_RECORD";
/// The maximum number of frames; 0: no stacks.
inline constexpr const char* kStacks = "STRATA_RECORD_STACKS";
inline constexpr const char* kAfterMs = "STRATA_RECORD_AFTER_MS";
inline constexpr const char* kForMs = "STRATA_RECORD_FOR_MS";
/// Starts the recording, and stops it.
inline constexpr const char* kSignal = "STRATA_RECORD_SIGNAL";
/// 1: drop events instead of waiting for the disk.
inline constexpr const char* kDrop = "STRATA_RECORD_DROP";

inline constexpr int kMostFrames = 128;

}  // namespace strata::record_settings
