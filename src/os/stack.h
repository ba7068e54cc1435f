#pragma once

#include <cstddef>
#include <cstdint>

/// \file  The calling thread's stack: what the unwinder that the C library's backtrace() uses would
/// tell, at a tenth of its cost.
///
/// Finding and reading a function's unwind table costs an unwinder more than a thousand
/// instructions a frame, each time. We read the table once for each return address that we meet
/// and keep what it says as a rule of one word (FrameRules); the walk follows rules. A stack with a
/// frame that has no such rule (a signal's, code without tables) is taken by the unwinder as a
/// whole, and so is one stack in 1024, to compare: if the two differ all rules are forgotten.
/// docs/decisions/0011 has the figures.

namespace strata::os {

/// Loads the unwinder (libgcc_s, with dlopen), so that capture_stack() need not: call it where the
/// program might call dlopen, never from inside the dynamic loader. May allocate. Once it has
/// found one it does nothing. Where there is none it is prepare_walks().
/// \returns  False if there are no tables either: stacks are empty then.
bool prepare_stacks() noexcept;

/// As far as it goes without an unwinder: from now on stacks are taken by rules alone, and end
/// where a frame has none. Nothing is loaded or allocated. After prepare_stacks() it does nothing.
/// \returns  False if the system has nothing to find tables by: stacks are empty then.
/// \threads  Any, also inside the dynamic loader.
bool prepare_walks() noexcept;

/// Return addresses, the innermost first; those in this library are left out where it is one.
/// \returns  How many, at most `capacity`; 0 before prepare_stacks(). Through the unwinder, which
///           allocates under a lock, it goes as far as rules are found without it.
/// \threads  Any, without waiting for each other.
/// \cost     some 40 instructions a frame that was met before, a thousand for any other
/// \source   libunwind's unw_backtrace(), which keeps such rules, too
std::size_t capture_stack(std::uintptr_t* frames, std::size_t capacity) noexcept;

/// The same by the unwinder alone: the truth, for comparison.
/// \cost  a thousand instructions a frame
std::size_t unwind_stack(std::uintptr_t* frames, std::size_t capacity) noexcept;

/// Where a walk begins: the return address of a frame, and the stack pointer and the frame pointer
/// as they are after that call.
struct StackPlace {
  std::uintptr_t pc;
  std::uintptr_t sp;
  std::uintptr_t fp;
};

/// The caller of the function that this is called in, as it goes on after that call. A frame's
/// address is where fp is saved.
[[gnu::always_inline]] inline StackPlace caller_place() noexcept {
  return {
      reinterpret_cast<std::uintptr_t>(__builtin_extract_return_addr(__builtin_return_address(0))),
      reinterpret_cast<std::uintptr_t>(__builtin_dwarf_cfa()),
      *static_cast<const std::uintptr_t*>(__builtin_frame_address(0))};
}

/// The stack at an instruction that was interrupted, as by a fault in this thread, and has not gone
/// on since: the address after its first byte, then return addresses.
/// \returns  as capture_stack()
std::size_t capture_stack_at(const StackPlace& instruction, std::uintptr_t* frames,
                             std::size_t capacity) noexcept;

/// What a walk has read. From the same pc and sp (and fp, where it depends on that) another walk
/// takes the same way as long as these words are what they were, and the code is.
struct StackTrail {
  static constexpr std::size_t kMostWords = 128;
  struct Word {
    std::uintptr_t address;
    std::uintptr_t value;
  };
  Word words[kMostWords];
  std::size_t count = 0;
  bool depends_on_fp = false;
  bool is_whole = false;  ///< false: it had no room, or the unwinder took the stack
};

/// As capture_stack(), from a place of the calling thread's stack that is still in use.
std::size_t capture_stack_from(const StackPlace& place, std::uintptr_t* frames,
                               std::size_t capacity, StackTrail& trail) noexcept;

/// How the process's stacks were taken so far. relaxed: late, and approximate where threads meet.
struct StackCounts {
  std::uint64_t by_rules;
  std::uint64_t by_unwinder;  ///< for want of a rule
  std::uint64_t differences;  ///< where both were taken: rules that were out of date
};
StackCounts stack_counts() noexcept;

}  // namespace strata::os
