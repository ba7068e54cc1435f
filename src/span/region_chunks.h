#pragma once

#include <cstddef>
#include <cstdint>

#include "os/page_source.h"
#include "span/fresh_regions.h"

namespace strata {

/// Where mappings for regions are made: one after the other upwards, past what is in the way, then
/// wherever the kernel chooses.
/// \threads  One at a time; the owner's lock guards it.
class RegionChunks {
 public:
  static constexpr std::size_t kMost = FreshRegions::kMost;

  struct Chunk {
    char* start;
    std::size_t regions;  ///< 0: refused
  };

  /// Where the next chunk is tried; from an address beyond the limit on, the kernel chooses.
  void begin_at(std::uintptr_t address) noexcept {
    next_address_ = address;
    was_refused_ = false;
  }

  /// Maps as many regions as are wanted, or one, below an address.
  /// \param wanted  1 to kMost
  /// \cost  If refused: four system calls, and one when it is again; one more for each place that
  ///        is in use, 64 at the most.
  Chunk map(os::PageSource& pages, std::size_t wanted, std::uintptr_t limit) noexcept;
  /// The owner unmapped the chunk, having no memory for what describes it.
  void take_back(const Chunk& chunk) noexcept {
    next_address_ = reinterpret_cast<std::uintptr_t>(chunk.start);
    was_refused_ = true;
  }
  /// Memory has gone back: the next try is for all that is wanted.
  void forget_refusal() noexcept { was_refused_ = false; }

 private:
  char* map_upwards(os::PageSource& pages, std::size_t regions, std::uintptr_t limit,
                    os::MapAt& answer) noexcept;
  char* map_anywhere(os::PageSource& pages, std::size_t regions, std::uintptr_t limit) noexcept;

  // Chosen: so much is free between two chunks. The kernel makes one mapping of two that touch, and
  // waits for the page faults in the first one; threads that grow the heap wait with it.
  static constexpr std::size_t kBetween = kRegionBytes;
  // Chosen: addresses that somebody else took are stepped over, half a TiB at the most, by steps of
  // which each is as long as the largest chunk at least, and so many are of the same length.
  static constexpr unsigned kSteps = 64;
  static constexpr unsigned kAlike = 8;

  std::uintptr_t next_address_ = 0;
  bool was_refused_ = false;  // the last time: the next failure has to be cheap
};

}  // namespace strata
