#pragma once

#include <cstddef>
#include <cstdint>

#include "os/faults.h"

namespace strata {

/// Who did something: the thread and its stack, the innermost frame first.
struct CallSite {
  // Chosen: deep enough to get past the containers and wrappers that most allocations come from,
  // and 128 bytes.
  static constexpr std::size_t kMaxFrames = 16;

  std::uint32_t thread = 0;
  std::uint32_t count = 0;
  std::uintptr_t frames[kMaxFrames];  // of which the first `count` mean anything

  /// The caller of the malloc in this thread.
  /// \cost  a walk over the stack
  static CallSite here() noexcept;
  /// The same for a report, even if no stack has been taken so far.
  static CallSite of_report() noexcept;
  /// The instruction whose fault this thread is handling, and its callers; as above.
  static CallSite of_fault(const os::Fault& fault) noexcept;

  /// Writes "strata: <what> by thread <n>" and a line for each frame to standard error.
  void print(const char* what) const noexcept;
};

}  // namespace strata
