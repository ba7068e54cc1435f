#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/frame_rule.h"

namespace strata::os {

/// A cache of the rules for return addresses that stacks were walked through lately.
///
/// A rule holds as long as the code at its address: each has a fingerprint of the code before the
/// return address. If that has changed (a library went, another came) a lookup drops the rule.
/// Always: find() returns the rule noted for this pc, with the code as it is.
/// \threads  Any number at once, without waiting: each entry has a version, odd while it is
///           written; a reader that sees it odd, or changed when all is read, finds nothing, and a
///           writer notes nothing. Values are stored with release and loaded with acquire, so that
///           a reader that sees one of a later writer sees its version as well; a writer begins
///           with acquire, so that its values come after those of the writer before.
class FrameRules {
 public:
  constexpr FrameRules() noexcept = default;
  FrameRules(const FrameRules&) = delete;
  FrameRules& operator=(const FrameRules&) = delete;

  /// \pre      `pc` is a return address of the calling thread's stack: its code can be read.
  /// \returns  kUnknown if there is none
  FrameRule find(std::uintptr_t pc) const noexcept;
  void note(std::uintptr_t pc, FrameRule rule) noexcept;  ///< \pre as above; may be lost
  void forget_all() noexcept;

 private:
  // Chosen: a large program samples from some thousand call sites with their callers; 256 KiB of
  // zeros, touched as they are used.
  static constexpr std::size_t kSets = 4096;
  static constexpr std::size_t kWays = 2;

  struct alignas(32) Entry {
    std::atomic<std::uint32_t> version{0};
    std::atomic<std::uint32_t> code{0};
    std::atomic<std::uintptr_t> pc{0};
    std::atomic<FrameRule> rule{};

    void write(std::uintptr_t new_pc, std::uint32_t new_code, FrameRule new_rule) noexcept;
  };
  static_assert(std::atomic<FrameRule>::is_always_lock_free, "a rule is read at once");

  static std::size_t set_of(std::uintptr_t pc) noexcept {
    return static_cast<std::size_t>((pc * 0x9e3779b97f4a7c15u) >> 52) % kSets;
  }

  Entry entries_[kSets][kWays];
};

}  // namespace strata::os
