#pragma once

/// \file  How `strata record` tells the recorder what to do: variables of the recorded program's
/// environment, which the programs that it starts inherit. Numbers are decimal.

namespace strata::record_settings {

inline constexpr const char* kLibrary = "libstrata-record.so";

/// The trace; %p stands for the process's number. A process that finds the file there already
/// makes another, with its own number after the name. Without it nothing is recorded.
inline constexpr const char* kFile = "STRATA_RECORD";
inline constexpr const char* kStacks = "STRATA_RECORD_STACKS";  ///< frames at most; 0: no stacks
inline constexpr const char* kAfterMs = "STRATA_RECORD_AFTER_MS";
inline constexpr const char* kForMs = "STRATA_RECORD_FOR_MS";
inline constexpr const char* kSignal = "STRATA_RECORD_SIGNAL";  ///< begins it, and ends it
inline constexpr const char* kDrop = "STRATA_RECORD_DROP";  ///< 1: rather than wait for the disk

inline constexpr int kMostFrames = 128;

}  // namespace strata::record_settings
