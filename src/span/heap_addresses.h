#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "os/page_source.h"
#include "os/symbol.h"
#include "span/page_map.h"

namespace strata {

/// Chooses where the regions of a page map lie: at a random place above everything that a program
/// linked to fixed addresses, its brk heap and 32-bit-minded mappings use, and below every mmap of
/// the kernel's own choice (docs/decisions/0001).
struct HeapAddresses {
  static constexpr std::uintptr_t kGiB = std::uintptr_t{1} << 30;
  // Where the kernel gives no low addresses, the map covers all that user space can have on x86-64
  // and on arm64 with 48-bit addresses. No region can be requested at this one.
  static constexpr std::uintptr_t kNone = std::uintptr_t{1} << 48;

  // Chosen: how many addresses a map covers. kUsual suffices for a heap that chooses its own place;
  // kAll takes 5 GiB of addresses, and serves heaps whose pages the program places
  // (docs/decisions/0014).
  static constexpr std::uintptr_t kUsual = 4096 * kGiB;
  static constexpr std::uintptr_t kAll = kNone;

  /// Reserves a map's tables for as many addresses as the process has room for.
  /// \param most       kUsual or kAll
  /// \param seed       decides the place; 0: the first one
  /// \param try_first  called with the address of a first region, or with kNone: whether there is
  ///                   one, or the kernel gives one below the map's limit
  /// \returns  False when out of memory; it can be tried again.
  template <typename TryFirst>
  static bool choose(PageMap& map, os::PageSource& pages, std::uintptr_t most,
                     std::size_t address_space, std::uint64_t seed, TryFirst&& try_first) noexcept {
    const std::uint64_t place = seed != 0 ? random_word(seed, 0) : 0;
    for (const Map& each : kMaps) {
      if (os::has_shadow_at_low_addresses()) break;
      if (each.limit > most) continue;
      if (each.limit != kLeastLimit && each.limit / kPageBytes > address_space / kMapShare)
        continue;
      if (!map.cover(each.limit, pages)) continue;
      if (try_first(kFirst + place % each.places * kRegionBytes)) return true;
      map.uncover();
    }
    if (!map.cover(kNone, pages)) return false;
    if (try_first(kNone)) return true;
    map.uncover();
    return false;
  }

 private:
  struct Map {
    std::uintptr_t limit;
    std::uint64_t places;  // a power of two
  };
  // The last two serve a process whose address space is limited (RLIMIT_AS), at 1/52429 of their
  // size.
  static constexpr std::uintptr_t kLeastLimit = 16 * kGiB;
  // Chosen: 17 bits of the place are random, 15 or 11 where addresses are limited, and the heap
  // grows upwards from there. No place is beyond 264 GiB: some arm64 kernels, and ThreadSanitizer,
  // allow 512 GiB. Valgrind allows 128 GiB, and chooses where the place is beyond.
  static constexpr Map kMaps[] = {
      {kAll, 1u << 17}, {kUsual, 1u << 17}, {128 * kGiB, 1u << 15}, {kLeastLimit, 1u << 11}};
  // Chosen: the largest share of such a process's address space that the map may take.
  static constexpr std::size_t kMapShare = 16;
  static constexpr std::uintptr_t kFirst = 8 * kGiB;
  static_assert(
      [] {
        for (const Map& each : kMaps) {
          if (kFirst + each.places * kRegionBytes > kFirst + (each.limit - kFirst) / 4 * 3)
            return false;
        }
        return true;
      }(),
      "wherever the heap begins, the map has room for it to grow");
};

}  // namespace strata
