#pragma once

#include <cstdint>

namespace strata::os {

/// How to get from a frame that is in a call to its caller's frame, in one word.
///
/// A frame is given by three registers: where it goes on (pc), the stack pointer as its callee
/// found it before the call (sp), and the frame pointer's register (fp), with any content. The
/// canonical frame address (CFA) is the caller's sp:
///   kFromStack    CFA = sp + cfa_words
///   kFromFrame    CFA = fp + cfa_words          code with a frame pointer, alloca
///   kFromSaved    CFA = word at fp + cfa_words  a main() that aligns its stack
/// The caller's pc is the word at CFA + return_words; its fp is the one at CFA + frame_words, or
/// unchanged if frame_words is 0.
///   kOutermost    there is no caller
///   kUnknown      none of these rules: signal frames, code without unwind tables
struct alignas(std::uint64_t) FrameRule {
  enum class Kind : std::uint8_t { kUnknown, kOutermost, kFromStack, kFromFrame, kFromSaved };

  Kind kind = Kind::kUnknown;
  bool is_signed = false;  ///< the caller's pc carries an authentication code (aarch64)
  std::int16_t cfa_words = 0;
  std::int16_t return_words = 0;
  std::int16_t frame_words = 0;
};
static_assert(sizeof(FrameRule) == 8, "a rule is one word, read at once");

/// Reads the rule that a function's unwind table (.eh_frame) has for one place in it, the one that
/// an unwinder follows; kUnknown if it is not one of ours.
/// \param entry     the function's entry (FDE), as _Unwind_Find_FDE returns it
/// \param function  the start of the function
/// \param pc        a return address in it
/// \source  DWARF 5, 6.4; Linux Standard Base, "Exception Frames"
FrameRule read_frame_rule(const void* entry, std::uintptr_t function, std::uintptr_t pc) noexcept;

}  // namespace strata::os
