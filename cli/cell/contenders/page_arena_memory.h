#pragma once

#include <strata/page_arena.hpp>

#include <cstddef>
#include <optional>
#include <string>

#include "contenders/needs.h"

namespace strata::cell {

/// Blocks cut one after the other from the pages of a PageArena, which is reset when the last of
/// them was freed: what phases of work use that end all at once.
class PageArenaMemory {
 public:
  static constexpr const char* kName = "page-arena";
  static constexpr const char* kSentence =
      "strata::PageArena: pages in order, all taken back at once, for one thread";

  static std::optional<std::string> why_unfit(const Needs& needs) {
    if (!needs.is_freed_at_once) return "takes everything back at once";
    if (needs.threads > 1) return "serves one thread";
    return std::nullopt;
  }

  explicit PageArenaMemory(const Needs& needs) : arena_(region_bytes(needs), kPageBytes) {}

  void* allocate(std::size_t bytes) noexcept {
    const std::size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (taken > static_cast<std::size_t>(end_ - next_) && !add_pages(taken)) return nullptr;
    ++live_;
    std::byte* block = next_;
    next_ += taken;
    return block;
  }

  void deallocate(void*, std::size_t) noexcept {
    if (--live_ != 0) return;
    arena_.reset();
    next_ = end_ = nullptr;
  }

 private:
  static constexpr std::size_t kPageBytes = 64 * 1024;
  static constexpr std::size_t kAlignment = alignof(std::max_align_t);

  static std::size_t region_bytes(const Needs& needs) {
    const std::size_t bytes = needs.bytes() + needs.live_blocks * kAlignment;
    return (2 * bytes / kPageBytes + 2) * kPageBytes;
  }

  /// Where the pages come out side by side, blocks run on from one into the next.
  bool add_pages(std::size_t bytes) noexcept {
    const std::size_t count = (bytes + kPageBytes - 1) / kPageBytes;
    auto* pages = static_cast<std::byte*>(arena_.allocate_pages(count));
    if (pages == nullptr) return false;
    if (pages != end_) next_ = pages;
    end_ = pages + count * kPageBytes;
    return true;
  }

  PageArena arena_;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::size_t live_ = 0;
};

}  // namespace strata::cell
