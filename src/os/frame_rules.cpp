#include "os/frame_rules.h"

namespace strata::os {
namespace {

/// 32 bits of the 16 aligned bytes in which the call before `pc` ends: they are on its page.
__attribute__((no_sanitize("address"), no_sanitize("thread"))) inline std::uint32_t code_before(
    std::uintptr_t pc) noexcept {
  const auto* const words = reinterpret_cast<const std::uint64_t*>((pc - 1) & ~std::uintptr_t{15});
  const std::uint64_t mixed = (words[0] ^ (words[1] * 0xbf58476d1ce4e5b9u)) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>(mixed >> 32);
}

}  // namespace

void FrameRules::Entry::write(std::uintptr_t new_pc, std::uint32_t new_code,
                              FrameRule new_rule) noexcept {
  std::uint32_t before = version.load(std::memory_order_relaxed);
  if (before % 2 != 0 ||
      !version.compare_exchange_strong(before, before + 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
    return;
  }
  pc.store(new_pc, std::memory_order_release);
  code.store(new_code, std::memory_order_release);
  rule.store(new_rule, std::memory_order_release);
  version.store(before + 2, std::memory_order_release);
}

FrameRule FrameRules::find(std::uintptr_t pc) const noexcept {
  for (const Entry& entry : entries_[set_of(pc)]) {
    const std::uint32_t version = entry.version.load(std::memory_order_acquire);
    if (entry.pc.load(std::memory_order_acquire) != pc) continue;
    const FrameRule rule = entry.rule.load(std::memory_order_acquire);
    const std::uint32_t code = entry.code.load(std::memory_order_acquire);
    if (version % 2 != 0 || entry.version.load(std::memory_order_relaxed) != version) return {};
    if (code != code_before(pc)) return {};
    return rule;
  }
  return {};
}

void FrameRules::note(std::uintptr_t pc, FrameRule rule) noexcept {
  Entry(&ways)[kWays] = entries_[set_of(pc)];
  // Its own place, else an empty one, else the one that was written less often.
  Entry* chosen = nullptr;
  for (Entry& way : ways) {
    const std::uintptr_t held = way.pc.load(std::memory_order_relaxed);
    if (held == pc || (held == 0 && chosen == nullptr)) chosen = &way;
    if (held == pc) break;
  }
  if (chosen == nullptr) {
    const bool first = ways[0].version.load(std::memory_order_relaxed) <=
                       ways[1].version.load(std::memory_order_relaxed);
    chosen = &ways[first ? 0 : 1];
  }
  chosen->write(pc, code_before(pc), rule);
}

void FrameRules::forget_all() noexcept {
  for (Entry(&ways)[kWays] : entries_) {
    for (Entry& entry : ways) {
      if (entry.pc.load(std::memory_order_relaxed) != 0) entry.write(0, 0, {});
    }
  }
}

}  // namespace strata::os
