#include "span/region_chunks.h"

namespace strata {

RegionChunks::Chunk RegionChunks::map(os::PageSource& pages, std::size_t wanted,
                                      std::uintptr_t limit) noexcept {
  const bool is_again = was_refused_;
  was_refused_ = false;
  for (std::size_t regions = is_again ? 1 : wanted;; regions = 1) {
    auto answer = os::MapAt::kInUse;
    char* start = map_upwards(pages, regions, limit, answer);
    // Where there was no memory at any place a moment ago, the answer at one of them is enough.
    if (start == nullptr && !(is_again && answer == os::MapAt::kNoMemory))
      start = map_anywhere(pages, regions, limit);
    if (start != nullptr) return {start, regions};
    if (regions == 1) break;
  }
  was_refused_ = true;
  return {nullptr, 0};
}

/// \param answer  what the kernel said of the last place; left as it is if none was tried
char* RegionChunks::map_upwards(os::PageSource& pages, std::size_t regions, std::uintptr_t limit,
                                os::MapAt& answer) noexcept {
  const std::size_t bytes = regions * kRegionBytes;
  std::uintptr_t address = next_address_;
  for (unsigned step = 0; step != kSteps && address + bytes <= limit; ++step) {
    auto* const start = reinterpret_cast<char*>(address);
    answer = pages.map_at(start, bytes);
    if (answer == os::MapAt::kNoMemory) break;
    if (answer == os::MapAt::kMapped) {
      next_address_ = address + bytes + kBetween;
      return start;
    }
    address += kMost * kRegionBytes << step / kAlike;
  }
  return nullptr;
}

/// A kernel that has chosen once chooses from then on.
[[gnu::cold, gnu::noinline]] char* RegionChunks::map_anywhere(os::PageSource& pages,
                                                              std::size_t regions,
                                                              std::uintptr_t limit) noexcept {
  const std::size_t bytes = regions * kRegionBytes;
  auto* const start = static_cast<char*>(pages.map_aligned(bytes, kRegionBytes));
  if (start == nullptr) return nullptr;
  if (reinterpret_cast<std::uintptr_t>(start) + bytes > limit) {
    pages.unmap(start, bytes);
    return nullptr;
  }
  next_address_ = limit;
  return start;
}

}  // namespace strata
