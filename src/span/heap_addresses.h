#pragma once

#include <cstddef>
#include <cstdint>

#include "os/page_source.h"
#include "os/symbol.h"
#include "span/page_map.h"

namespace strata {

/// Where the regions of a page map lie: above everything that a program linked to fixed addresses,
/// its brk heap and 32-bit-minded mappings use, below every mmap of the kernel's own choice, at a
/// random place (docs/decisions/0001).
struct HeapAddresses {
  static constexpr std::uintptr_t kGiB = std::uintptr_t{1} << 30;
  // Where a kernel gives no low addresses, the map covers all that user space can have on x86-64
  // and arm64 with 48-bit addresses. No region can be asked for at this one.
  static constexpr std::uintptr_t kNone = std::uintptr_t{1} << 48;

  // Chosen: how many addresses a map covers. The usual ones are what a heap needs that is asked
  // where to lie; all of them take 5 GiB of addresses, and serve heaps whose pages the program
  // places (docs/decisions/0014).
  static constexpr std::uintptr_t kUsual = 4096 * kGiB;
  static constexpr std::uintptr_t kAll = kNone;

  /// Reserves a map's tables for as many addresses as the process has room for.
  /// \param most       kUsual or kAll
  /// \param try_first  called with the address of a first region, or with kNone: whether there is
  ///                   one, or the kernel gives one below the map's limit
  /// \returns  False when out of memory.
  template <typename TryFirst>
  static bool choose(PageMap& map, os::PageSource& pages, std::uintptr_t most,
                     std::size_t address_space, std::uint64_t seed, TryFirst&& try_first) noexcept {
    for (const std::uintptr_t limit : kMapLimits) {
      if (os::has_shadow_at_low_addresses()) break;
      if (limit > most) continue;
      if (limit != kLeastMapLimit && limit / kPageBytes > address_space / kMapShare) continue;
      const std::uint64_t places = limit == kLeastMapLimit ? kLeastPlaces : kPlaces;
      if (!map.cover(limit, pages)) continue;
      if (try_first(kFirst + (seed % places) * kRegionBytes)) return true;
      map.discard(pages);
    }
    return map.cover(kNone, pages) && try_first(kNone);
  }

 private:
  // The others serve a process whose address space is limited (RLIMIT_AS), at 1/52429 of their
  // size.
  static constexpr std::uintptr_t kLeastMapLimit = 16 * kGiB;
  static constexpr std::uintptr_t kMapLimits[] = {kAll, kUsual, 128 * kGiB, kLeastMapLimit};
  // Chosen: how small a part of such a process's address space the map has to be.
  static constexpr std::size_t kMapShare = 16;
  // Chosen: inside the 128 GiB that valgrind allows; 15 bits of it are random, 11 where the page
  // map is the least.
  static constexpr std::uintptr_t kFirst = 8 * kGiB;
  static constexpr std::uint64_t kPlaces = 1u << 15;
  static constexpr std::uint64_t kLeastPlaces = 1u << 11;
  static_assert(kFirst + kLeastPlaces * kRegionBytes < kLeastMapLimit,
                "the least map covers the heap's first regions wherever they are placed");
};

}  // namespace strata
