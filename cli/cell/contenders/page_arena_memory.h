#pragma once

#include <strata/page_arena.hpp>

#include <cstddef>
#include <cstdint>

#include "contenders/needs.h"

namespace strata::cell {

/// Cuts blocks one after the other from the pages of a PageArena, and resets it when the last block
/// is freed: the pattern of work phases that end all at once.
class PageArenaMemory {
 public:
  static constexpr const char* kName = "page-arena";
  static constexpr const char* kSentence =
      "strata::PageArena: pages in order, all taken back at once, for one thread";
  static constexpr std::size_t kHugePages = 64 * 1024;

  static const char* why_unfit(const Needs& needs) {
    return needs.is_freed_at_once ? needs.why_not_one_thread() : "takes everything back at once";
  }

  explicit PageArenaMemory(const Needs& needs) : arena_(region_bytes(needs), kHugePages) {}
  /// Uses OS pages, the arena's default.
  explicit PageArenaMemory(std::size_t region_bytes) : arena_(region_bytes) {}

  void* allocate(std::size_t bytes) noexcept {
    std::uintptr_t start = aligned(next_, bytes);
    if (next_ == 0 || start + bytes > end_) {
      if (!add_pages(bytes)) return nullptr;
      start = aligned(next_, bytes);
    }
    ++live_;
    next_ = start + (bytes == 0 ? 1 : bytes);
    return reinterpret_cast<void*>(start);  // NOLINT: addresses are what is rounded here
  }

  void deallocate(void*, std::size_t) noexcept {
    if (--live_ != 0) return;
    arena_.reset();
    next_ = end_ = 0;
  }

 private:
  static std::size_t region_bytes(const Needs& needs) {
    const std::size_t bytes = needs.bytes() + needs.live_blocks * alignof(std::max_align_t);
    return (2 * bytes / kHugePages + 2) * kHugePages;
  }

  /// An object's size is a multiple of its alignment, so an odd size needs less alignment.
  static std::uintptr_t aligned(std::uintptr_t at, std::size_t bytes) noexcept {
    const std::size_t alignment =
        bytes % alignof(std::max_align_t) == 0 ? alignof(std::max_align_t) : alignof(void*);
    return (at + alignment - 1) / alignment * alignment;
  }

  /// If the new pages are adjacent to the last, blocks may span both.
  bool add_pages(std::size_t bytes) noexcept {
    const std::size_t page = arena_.page_size();
    const std::size_t count = (bytes + alignof(std::max_align_t) + page - 1) / page;
    const auto pages = reinterpret_cast<std::uintptr_t>(arena_.allocate_pages(count));
    if (pages == 0) return false;
    if (pages != end_) next_ = pages;
    end_ = pages + count * page;
    return true;
  }

  PageArena arena_;
  std::uintptr_t next_ = 0;
  std::uintptr_t end_ = 0;
  std::size_t live_ = 0;
};

}  // namespace strata::cell
