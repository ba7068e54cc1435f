#pragma once

#include <cstddef>
#include <cstdint>

#include "os/page_source.h"
#include "span/fresh_regions.h"

namespace strata {

/// Maps chunks, from which regions are cut: one after the other upwards, stepping over what is in
/// the way, then wherever the kernel chooses. RegionSource owns it.
/// \threads  One at a time; the owner's lock guards it.
class RegionChunks {
 public:
  static constexpr std::size_t kMost = FreshRegions::kMost;

  struct Chunk {
    char* start;
    std::size_t regions;  ///< 0: refused
  };

  /// Sets where the next chunk is tried; from the limit on, the kernel chooses.
  void begin_at(std::uintptr_t address) noexcept {
    next_address_ = address;
    was_refused_ = false;
  }

  /// Maps as many regions as wanted, or one, below `limit`.
  /// \param wanted  1 to kMost
  /// \cost  If refused: four system calls; two if one region is wanted; one when it is again. For
  ///        all that is wanted and for one region: up to 64 more, one per place in use (two before
  ///        Linux 4.17), and up to three more where the kernel chose beyond the limit. If it is
  ///        again: for one region, and one call more if the first place is in use.
  Chunk map(os::PageSource& pages, std::size_t wanted, std::uintptr_t limit) noexcept;
  /// Undoes map(): the owner had no memory to describe the chunk, and has unmapped it.
  void take_back(const Chunk& chunk) noexcept {
    const auto start = reinterpret_cast<std::uintptr_t>(chunk.start);
    // Not where the kernel chose: it goes on choosing.
    if (next_address_ == behind(start, chunk.regions)) next_address_ = start;
    was_refused_ = true;
  }
  /// Memory has gone back to the kernel, so the next try is for all that is wanted.
  void forget_refusal() noexcept { was_refused_ = false; }

 private:
  Chunk map_otherwise(os::PageSource& pages, std::size_t wanted, std::uintptr_t limit) noexcept;
  char* map_upwards(os::PageSource& pages, std::size_t regions, std::uintptr_t limit,
                    os::MapAt& answer) noexcept;
  char* map_anywhere(os::PageSource& pages, std::size_t regions, std::uintptr_t limit) noexcept;

  // Chosen: the gap behind a chunk. The kernel would merge two mappings that touch, and waits for
  // page faults in the first one to do so; threads that grow the heap would wait with it. No gap
  // behind single regions: where addresses are few, half of the page map would be gaps.
  static constexpr std::size_t kBetween = kRegionBytes;
  static constexpr std::uintptr_t behind(std::uintptr_t chunk, std::size_t regions) noexcept {
    return chunk + regions * kRegionBytes + (regions > 1 ? kBetween : 0);
  }
  // Chosen: foreign mappings are stepped over at 64 places, the last 478 GiB above the first. Eight
  // steps have the length of the largest chunk, the next eight twice that, and so on. Accepted
  // loss: in a page map of 16 GiB some holes are not found.
  static constexpr unsigned kPlaces = 64;
  static constexpr unsigned kAlike = 8;

  std::uintptr_t next_address_ = 0;
  bool was_refused_ = false;  // last time; the next failure has to be cheap
};

}  // namespace strata
