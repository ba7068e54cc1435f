#include "span/page_map.h"
#include <strata/detail/bits.hpp>

#include <algorithm>

#include "base/fatal.h"

namespace strata {
namespace {

// Chosen: entries are opened for so many addresses at once, 64 KiB of one table and 16 KiB of the
// other: most heaps need no second call.
constexpr std::uintptr_t kOpenedAtOnce = std::uintptr_t{4} << 30;
// Chosen: 64 KiB of a table of states.
constexpr std::uintptr_t kStatesOpenedAtOnce = std::uintptr_t{512} << 20;
constexpr std::uintptr_t kPagesOpenedAtOnce = kStatesOpenedAtOnce >> kPageShift;
// Chosen: the first table of states has 16 MiB of addresses, where one for all has 512 MiB, and a
// program may limit its addresses later. Hardly a heap goes 64 GiB up or down from its first page.
constexpr std::uintptr_t kNearPages = std::uintptr_t{128} << 30 >> kPageShift;
static_assert(kPagesOpenedAtOnce * sizeof(ObjectStates::Place) % kPageBytes == 0,
              "what is opened at once is whole OS pages, of whichever size");

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

std::size_t near_table_bytes(std::uintptr_t page_limit) noexcept {
  return detail::round_up(std::min(kNearPages, page_limit) * sizeof(ObjectStates::Place),
                          os::page_bytes());
}

}  // namespace

/// Of the tables that are reserved with one call.
std::size_t PageMap::bytes_at_once(std::uintptr_t page_limit) const noexcept {
  return class_table_bytes(page_limit) + region_table_bytes(page_limit) +
         (expects_states_ ? near_table_bytes(page_limit) : 0);
}

bool PageMap::cover(std::uintptr_t limit, os::PageSource& pages) noexcept {
  STRATA_DCHECK(page_limit_ == 0);
  const std::uintptr_t page_limit = limit >> kPageShift;
  const std::size_t class_bytes = class_table_bytes(page_limit);
  void* const tables = pages.reserve_readable(bytes_at_once(page_limit));
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
  return bytes_at_once(page_limit_) + (expects_states_ ? 0 : near_states_.bytes()) +
         all_states_.bytes();
}

void PageMap::discard(os::PageSource& pages) noexcept {
  if (page_limit_ == 0) return;
  pages.unmap_apart(classes_, bytes_at_once(page_limit_));
  page_limit_ = 0;
  {
    LockGuard guard(opening_);
    if (expects_states_) near_states_ = {};
    near_states_.discard(pages);
    all_states_.discard(pages);
    opened_ = opened_states_ = {};
  }
  classes_ = nullptr;
  regions_ = nullptr;
  states_.store(nullptr, std::memory_order_relaxed);
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

std::size_t PageMap::StateTable::bytes() const noexcept {
  return detail::round_up((end - begin) * sizeof(ObjectStates::Place), os::page_bytes());
}

/// \returns  False when out of memory; the table is as before: none.
bool PageMap::StateTable::reserve(std::uintptr_t first, std::uintptr_t last,
                                  os::PageSource& pages) noexcept {
  const StateTable reserved{first, last, nullptr};
  return place(first, last, pages.reserve_readable(reserved.bytes()));
}

/// \returns  False if nothing is reserved.
bool PageMap::StateTable::place(std::uintptr_t first, std::uintptr_t last,
                                void* reserved) noexcept {
  places = static_cast<ObjectStates::Place*>(reserved);
  if (places == nullptr) return false;
  begin = first;
  end = last;
  return true;
}

bool PageMap::StateTable::open(std::uintptr_t first, std::uintptr_t last,
                               os::PageSource& pages) const noexcept {
  return open_entries(places, first - begin, last - begin, pages);
}

void PageMap::StateTable::discard(os::PageSource& pages) noexcept {
  if (places != nullptr) pages.unmap_apart(places, bytes());
  *this = {};
}

/// A table for the addresses around that of the page. It begins where 64 KiB of it are opened.
bool PageMap::reserve_near_states(std::uintptr_t page) noexcept {
  const std::uintptr_t below = page - std::min(page, kNearPages / 2);
  const std::uintptr_t begin = below - below % kPagesOpenedAtOnce;
  const std::uintptr_t end = std::min(begin + kNearPages, page_limit_);
  void* const behind = reinterpret_cast<char*>(regions_) + region_table_bytes(page_limit_);
  const bool has_table = expects_states_ ? near_states_.place(begin, end, behind)
                                         : near_states_.reserve(begin, end, *pages_);
  if (!has_table) return false;
  publish(near_states_);
  return true;
}

/// A table for all addresses, with what the first one has.
bool PageMap::reserve_all_states() noexcept {
  StateTable all;
  if (!all.reserve(0, page_limit_, *pages_)) return false;
  for (std::uintptr_t page = near_states_.begin; page < near_states_.end;
       page += kPagesOpenedAtOnce) {
    const std::uintptr_t last = std::min(page + kPagesOpenedAtOnce, near_states_.end);
    const ObjectStates::Place* const from = near_states_.places + (page - near_states_.begin);
    const ObjectStates::Place* const to = from + (last - page);
    if (std::all_of(from, to, [](auto place) { return place == ObjectStates::kNoPlace; })) continue;
    if (!all.open(page, last, *pages_)) {
      all.discard(*pages_);
      return false;
    }
    std::copy(from, to, all.places + page);
  }
  all_states_ = all;
  opened_states_ = {};
  publish(all_states_);
  return true;
}

void PageMap::publish(const StateTable& table) noexcept {
  const std::uintptr_t of_page_0 =
      reinterpret_cast<std::uintptr_t>(table.places) - table.begin * sizeof(ObjectStates::Place);
  states_.store(reinterpret_cast<ObjectStates::Place*>(of_page_0), std::memory_order_release);
}

bool PageMap::open_states(const void* start, std::size_t bytes) noexcept {
  LockGuard guard(opening_);
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(start);
  const std::uintptr_t first = address >> kPageShift;
  const std::uintptr_t last = (address + bytes) >> kPageShift;
  if (last > page_limit_) return false;
  if (near_states_.places == nullptr && !reserve_near_states(first)) return false;
  const bool is_near = first >= near_states_.begin && last <= near_states_.end;
  if (!is_near && all_states_.places == nullptr && !reserve_all_states()) return false;
  const StateTable& table = all_states_.places != nullptr ? all_states_ : near_states_;
  return open_around(opened_states_, address, bytes, kStatesOpenedAtOnce,
                     [&](std::uintptr_t begin, std::uintptr_t end) {
                       return table.open(begin >> kPageShift, end >> kPageShift, *pages_);
                     });
}

void PageMap::set_states(const Span& span, ObjectStates::Place place) noexcept {
  LockGuard guard(opening_);  // the table is not replaced meanwhile
  ObjectStates::Place* const states = states_.load(std::memory_order_relaxed);
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(span.start) >> kPageShift;
  for (unsigned i = 0; i < span.page_count; ++i) {
    std::atomic_ref<ObjectStates::Place>(states[first + i]).store(place, std::memory_order_relaxed);
  }
}

}  // namespace strata
