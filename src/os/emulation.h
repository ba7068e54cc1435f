#pragma once

#include <gmock/gmock.h>

#include <string>

#include "os/faults.h"  // whose kRead would shadow the one below, if it came later
#include "os/page_source.h"

/// \file  What a test has to know where an emulator of user programs runs it: qemu's shares the
/// process with the program.

namespace strata::os {

/// True if this build's tests run under an emulator. Such a test cannot start itself anew, for the
/// kernel cannot run its file. Nor can it fork while others of its threads run: the locks of the
/// emulator that they hold stay locked in the child. And the emulator's memory counts as its own:
/// its books of the pages, and what it keeps of each thread that has ended.
#ifdef STRATA_EMULATED
inline constexpr bool kIsEmulated = true;
#else
inline constexpr bool kIsEmulated = false;
#endif

/// Whether the kernel can be asked about our OS pages. An emulator of larger ones knows its host's,
/// and tells neither which of ours occupy memory nor which mapping is the stack.
inline bool knows_pages() { return !kIsEmulated || page_bytes() == 4096; }

/// What a sentence says of a pointer into the stack, as a regular expression.
inline std::string lies_in_stack() {
  return knows_pages() ? "Strata did not allocate it: it lies in .stack."
                       : "nothing is mapped there";
}

/// What a report says of an access, as a regular expression: an emulator may not tell reads from
/// writes.
inline constexpr const char* kRead = kIsEmulated ? "(read|accessed memory)" : "read";
inline constexpr const char* kWrote = kIsEmulated ? "(wrote|accessed memory)" : "wrote";

/// How a death test runs the code that dies: in a fresh process where one can be had.
inline constexpr const char* kSafestDeathTests = kIsEmulated ? "fast" : "threadsafe";

/// Matches all that a process said before it died: this regular expression from its start to its
/// end. An emulator adds a line of its own.
inline auto said_only(const std::string& words) {
  return ::testing::ContainsRegex("^" + words +
                                  (kIsEmulated ? "(qemu: uncaught target signal .*\n)?$" : "$"));
}

}  // namespace strata::os
