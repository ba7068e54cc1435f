#pragma once

#include <cstddef>
#include <cstdint>

/// \file  The calling thread's stack: what the unwinder behind the C library's backtrace() would
///        return, at a tenth of its cost.
///
/// For each frame, each time, an unwinder finds and reads the function's unwind table, which takes
/// more than a thousand instructions. We read the table once per return address, and keep what it
/// says as a rule of one word (FrameRules). Walks follow rules. If a frame has no such rule (a
/// signal's, code without tables), the unwinder takes the whole stack. It also takes one stack in
/// 1024, for comparison: if the two differ, all rules are dropped. docs/decisions/0011 has the
/// figures.

namespace strata::os {

/// Loads the unwinder (libgcc_s, with dlopen), so that capture_stack() need not. Call it where the
/// program might call dlopen, never from inside the dynamic loader. May allocate. Does nothing once
/// it has found an unwinder. If there is none, it does what prepare_walks() does.
/// \returns  False if there are no tables either: then stacks are empty.
bool prepare_stacks() noexcept;

/// Prepares stacks without an unwinder: from now on they are taken by rules alone, and end at a
/// frame without a rule. Loads and allocates nothing. Changes nothing after prepare_stacks().
/// \returns  False if the system offers no way to find tables: then stacks are empty.
/// \threads  Any, even inside the dynamic loader.
bool prepare_walks() noexcept;

/// Writes return addresses, the innermost first; without those in this library, if it is a library
/// of its own.
/// \returns  How many, at most `capacity`; 0 before stacks are prepared. A stack through the
///           unwinder, which allocates under a lock, ends where rules cannot be found without it.
/// \threads  Any, without waiting for each other.
/// \cost     some 40 instructions for a frame seen before, a thousand for any other
/// \source   libunwind's unw_backtrace(), which keeps such rules, too
std::size_t capture_stack(std::uintptr_t* frames, std::size_t capacity) noexcept;

/// The same by the unwinder alone: the truth, for comparison.
/// \cost  a thousand instructions per frame
std::size_t unwind_stack(std::uintptr_t* frames, std::size_t capacity) noexcept;

/// Where a walk begins: a return address, and the stack pointer and the frame pointer as they are
/// after the return.
struct StackPlace {
  std::uintptr_t pc;
  std::uintptr_t sp;
  std::uintptr_t fp;
};

/// The place after the call of the function that this is inlined into. A frame's address is where
/// fp is saved.
[[gnu::always_inline]] inline StackPlace caller_place() noexcept {
  return {
      reinterpret_cast<std::uintptr_t>(__builtin_extract_return_addr(__builtin_return_address(0))),
      reinterpret_cast<std::uintptr_t>(__builtin_dwarf_cfa()),
      *static_cast<const std::uintptr_t*>(__builtin_frame_address(0))};
}

/// Writes the stack at an instruction that was interrupted, as by a fault in this thread, and has
/// not continued since: the address after the instruction's first byte, then return addresses.
/// \returns  as capture_stack()
std::size_t capture_stack_at(const StackPlace& instruction, std::uintptr_t* frames,
                             std::size_t capacity) noexcept;

/// The words that a walk has read. Another walk from the same pc and sp (and fp, if depends_on_fp)
/// takes the same path as long as these words, and the code, are unchanged.
struct StackTrail {
  static constexpr std::size_t kMostWords = 128;
  struct Word {
    std::uintptr_t address;
    std::uintptr_t value;
  };
  Word words[kMostWords];
  std::size_t count = 0;
  bool depends_on_fp = false;
  bool is_whole = false;  ///< false: there was no room, or the unwinder took the stack
};

/// As capture_stack(), from a place of the calling thread's stack that is still in use.
std::size_t capture_stack_from(const StackPlace& place, std::uintptr_t* frames,
                               std::size_t capacity, StackTrail& trail) noexcept;

/// How the process's stacks were taken so far. Relaxed: late, and approximate if several threads
/// take stacks.
struct StackCounts {
  std::uint64_t by_rules;
  std::uint64_t by_unwinder;  ///< for lack of a rule
  std::uint64_t differences;  ///< stacks taken by both that differed: a rule was out of date
};
StackCounts stack_counts() noexcept;

}  // namespace strata::os
