#include "span/region_chunks.h"

namespace strata {

RegionChunks::Chunk RegionChunks::map(os::PageSource& pages, std::size_t wanted,
                                      std::uintptr_t limit) noexcept {
  if (!was_refused_) [[likely]] {
    auto answer = os::MapAt::kInUse;
    char* const start = map_upwards(pages, wanted, limit, answer);
    if (start != nullptr) [[likely]]
      return {start, wanted};
  }
  return map_otherwise(pages, wanted, limit);
}

/// Maps all `wanted` regions where the kernel chooses, or else a single one.
[[gnu::cold, gnu::noinline]] RegionChunks::Chunk RegionChunks::map_otherwise(
    os::PageSource& pages, std::size_t wanted, std::uintptr_t limit) noexcept {
  const bool is_again = was_refused_;
  char* start = is_again ? nullptr : map_anywhere(pages, wanted, limit);
  if (start == nullptr && (is_again || wanted != 1)) {
    wanted = 1;
    auto answer = os::MapAt::kInUse;
    start = map_upwards(pages, 1, limit, answer);
    // Where the last try failed, too, the answer at one place is enough. Accepted loss: the
    // kernel's choice, where that place is beyond the addresses that a process can have.
    if (start == nullptr && !(is_again && answer == os::MapAt::kNoMemory))
      start = map_anywhere(pages, 1, limit);
  }
  was_refused_ = start == nullptr;
  return {start, was_refused_ ? 0 : wanted};
}

/// \param answer  the kernel's answer for the first place; unchanged if none was tried
char* RegionChunks::map_upwards(os::PageSource& pages, std::size_t regions, std::uintptr_t limit,
                                os::MapAt& answer) noexcept {
  const std::size_t bytes = regions * kRegionBytes;
  std::uintptr_t address = next_address_;
  for (unsigned place = 0; place != kPlaces && address + bytes <= limit; ++place) {
    auto* const start = reinterpret_cast<char*>(address);
    const os::MapAt here = pages.map_at(start, bytes);
    if (place == 0) answer = here;
    if (here == os::MapAt::kNoMemory) break;
    if (here == os::MapAt::kMapped) {
      next_address_ = behind(address, regions);
      return start;
    }
    address += (kMost * kRegionBytes) << (place / kAlike);
  }
  return nullptr;
}

/// Maps where the kernel chooses. From then on it always does.
[[gnu::cold]] char* RegionChunks::map_anywhere(os::PageSource& pages, std::size_t regions,
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
