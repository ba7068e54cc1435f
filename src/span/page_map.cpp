#include "span/page_map.h"
#include <strata/detail/bits.hpp>

#include <algorithm>

#include "base/fatal.h"

namespace strata {
namespace {

// Chosen: entries are opened for so many addresses at once, 64 KiB of one table and 16 KiB of the
// other: most heaps need no second call.
constexpr std::uintptr_t kOpenedAtOnce = std::uintptr_t{4} << 30;
// Chosen: 64 KiB of the table of states.
constexpr std::uintptr_t kStatesOpenedAtOnce = std::uintptr_t{512} << 20;

/// Commits the OS pages of table[first] to table[last - 1]. `table` starts an OS page.
template <typename Entry>
bool open_entries(Entry* table, std::uintptr_t first, std::uintptr_t last,
                  os::PageSource& pages) noexcept {
  const std::size_t begin = first * sizeof(Entry) & ~(os::page_bytes() - 1);
  const std::size_t end = detail::round_up(last * sizeof(Entry), os::page_bytes());
  return pages.commit(reinterpret_cast<char*>(table) + begin, end - begin);
}

std::size_t class_table_bytes(std::uintptr_t page_limit) noexcept {
  return detail::round_up(page_limit, os::page_bytes());
}

std::size_t region_table_bytes(std::uintptr_t page_limit) noexcept {
  return detail::round_up(page_limit / kPagesPerRegion * sizeof(Region*), os::page_bytes());
}

std::size_t state_table_bytes(std::uintptr_t page_limit) noexcept {
  return detail::round_up(page_limit * sizeof(ObjectStates::Place), os::page_bytes());
}

}  // namespace

bool PageMap::cover(std::uintptr_t limit, os::PageSource& pages) noexcept {
  STRATA_DCHECK(page_limit_ == 0);
  const std::uintptr_t page_limit = limit >> kPageShift;
  const std::size_t class_bytes = class_table_bytes(page_limit);
  void* const tables = pages.reserve_readable(class_bytes + region_table_bytes(page_limit));
  if (tables == nullptr) return false;
  pages_ = &pages;
  classes_ = static_cast<std::uint8_t*>(tables);
  regions_ = reinterpret_cast<Region**>(classes_ + class_bytes);
  page_limit_ = page_limit;
  return true;
}

std::size_t PageMap::reserved_bytes() const noexcept {
  if (page_limit_ == 0) return 0;
  LockGuard guard(opening_);
  return class_table_bytes(page_limit_) + region_table_bytes(page_limit_) +
         (states_ != nullptr ? state_table_bytes(page_limit_) : 0);
}

void PageMap::discard(os::PageSource& pages) noexcept {
  if (page_limit_ == 0) return;
  pages.unmap_apart(classes_, class_table_bytes(page_limit_) + region_table_bytes(page_limit_));
  if (states_ != nullptr) pages.unmap_apart(states_, state_table_bytes(page_limit_));
  page_limit_ = 0;
  {
    LockGuard guard(opening_);
    opened_ = opened_states_ = {};
  }
  classes_ = nullptr;
  regions_ = nullptr;
  states_ = nullptr;
}

/// Opens tables for the addresses and those around them, if they are not open.
/// \param tables  opens them from `begin` to `end`: returns whether it could
template <typename Tables>
bool PageMap::open_around(Opened& opened, std::uintptr_t address, std::size_t bytes,
                          std::uintptr_t at_once, Tables&& tables) noexcept {
  if (address >= opened.begin && address + bytes <= opened.end) return true;
  if (address + bytes > limit()) return false;
  const std::uintptr_t begin = address & ~(at_once - 1);
  const std::uintptr_t end = std::min((address + bytes + at_once - 1) & ~(at_once - 1), limit());
  if (!tables(begin, end)) return false;
  const bool touches = opened.end != 0 && begin <= opened.end && end >= opened.begin;
  opened = {touches ? std::min(begin, opened.begin) : begin,
            touches ? std::max(end, opened.end) : end};
  return true;
}

bool PageMap::open(const void* start, std::size_t bytes) noexcept {
  LockGuard guard(opening_);
  return open_around(
      opened_, reinterpret_cast<std::uintptr_t>(start), bytes, kOpenedAtOnce,
      [this](std::uintptr_t begin, std::uintptr_t end) {
        return open_entries(classes_, begin >> kPageShift, end >> kPageShift, *pages_) &&
               open_entries(regions_, begin >> kRegionShift, end >> kRegionShift, *pages_);
      });
}

bool PageMap::open_states(const void* start, std::size_t bytes) noexcept {
  LockGuard guard(opening_);
  if (states_ == nullptr) {
    void* const table = pages_->reserve_readable(state_table_bytes(page_limit_));
    if (table == nullptr) return false;
    states_ = static_cast<ObjectStates::Place*>(table);
  }
  return open_around(opened_states_, reinterpret_cast<std::uintptr_t>(start), bytes,
                     kStatesOpenedAtOnce, [this](std::uintptr_t begin, std::uintptr_t end) {
                       return open_entries(states_, begin >> kPageShift, end >> kPageShift,
                                           *pages_);
                     });
}

}  // namespace strata
