#include "span/page_map.h"
#include <strata/detail/bits.hpp>

#include <algorithm>

#include "base/fatal.h"

namespace strata {
namespace {

// Chosen: entries are opened for so many addresses at once, 64 KiB of one table and 16 KiB of the
// other; most heaps need no second call.
constexpr std::uintptr_t kOpenedAtOnce = std::uintptr_t{4} << 30;

/// Commits the OS pages of table[first] to table[last - 1]. `table` starts an OS page.
template <typename Entry>
bool open_entries(Entry* table, std::uintptr_t first, std::uintptr_t last,
                  os::PageSource& pages) noexcept {
  const std::size_t begin = detail::round_down(first * sizeof(Entry), os::page_bytes());
  const std::size_t end = detail::round_up(last * sizeof(Entry), os::page_bytes());
  return pages.commit(reinterpret_cast<char*>(table) + begin, end - begin);
}

std::size_t class_table_bytes(std::uintptr_t page_limit) noexcept {
  return detail::round_up(page_limit, os::page_bytes());
}

std::size_t region_table_bytes(std::uintptr_t page_limit) noexcept {
  return detail::round_up(page_limit / kPagesPerRegion * sizeof(Region*), os::page_bytes());
}

}  // namespace

bool PageMap::cover(std::uintptr_t limit, os::PageSource& pages) noexcept {
  STRATA_DCHECK(page_limit_ == 0);
  const std::uintptr_t page_limit = limit >> kPageShift;
  const std::size_t bytes = class_table_bytes(page_limit) + region_table_bytes(page_limit);
  if (bytes > reserved_bytes_) {
    void* const tables = pages.reserve_readable(bytes);
    if (tables == nullptr) return false;
    // Accepted: smaller tables from before stay mapped, without memory, while the process lives.
    classes_ = static_cast<std::uint8_t*>(tables);
    reserved_bytes_ = bytes;
  }
  pages_ = &pages;
  regions_ = reinterpret_cast<Region**>(classes_ + class_table_bytes(page_limit));
  std::atomic_ref(page_limit_).store(page_limit, std::memory_order_release);
  return true;
}

void PageMap::uncover() noexcept {
  page_limit_ = 0;
  LockGuard guard(opening_);
  opened_ = {};
}

void PageMap::discard(os::PageSource& pages) noexcept {
  if (reserved_bytes_ == 0) return;
  uncover();
  pages.unmap_apart(classes_, reserved_bytes_);
  reserved_bytes_ = 0;
  classes_ = nullptr;
  regions_ = nullptr;
}

bool PageMap::open(const void* start, std::size_t bytes) noexcept {
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(start);
  LockGuard guard(opening_);
  if (address >= opened_.begin && address + bytes <= opened_.end) return true;
  if (address + bytes > limit()) return false;
  const std::uintptr_t begin = detail::round_down(address, kOpenedAtOnce);
  const std::uintptr_t end = std::min(detail::round_up(address + bytes, kOpenedAtOnce), limit());
  if (!open_entries(classes_, begin >> kPageShift, end >> kPageShift, *pages_) ||
      !open_entries(regions_, begin >> kRegionShift, end >> kRegionShift, *pages_))
    return false;
  const bool touches = opened_.end != 0 && begin <= opened_.end && end >= opened_.begin;
  opened_ = {touches ? std::min(begin, opened_.begin) : begin,
             touches ? std::max(end, opened_.end) : end};
  return true;
}

}  // namespace strata
