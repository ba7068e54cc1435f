#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/fatal.h"
#include "span/page.h"

namespace strata {

/// The regions of one chunk that are not in use yet. RegionSource owns them. They come into use
/// upwards, or in an order that the caller draws, so that the address of one region does not tell
/// where the next one will be.
/// \threads  One at a time; the owner's lock guards it.
class FreshRegions {
 public:
  static constexpr std::size_t kMost = 128;

  /// \pre  is_empty()
  void begin(char* start, std::size_t count) noexcept {
    STRATA_DCHECK(count_ == 0 && count <= kMost);
    start_ = start;
    count_ = count;
    for (std::size_t region = 0; region < count; ++region)
      words_[region / 64] |= std::uint64_t{1} << region % 64;
  }

  bool is_empty() const noexcept { return count_ == 0; }
  std::size_t bytes() const noexcept { return count_ * kRegionBytes; }

  /// Chooses one of them: the lowest if `draw` is 0; if `draw` is random, each with equal
  /// probability.
  /// \pre  not is_empty()
  char* choose(std::uint64_t draw) const noexcept {
    STRATA_DCHECK(count_ != 0);
    auto left = static_cast<unsigned>(draw % count_);
    std::size_t word = 0;
    for (;; ++word) {
      const auto here = static_cast<unsigned>(std::popcount(words_[word]));
      if (left < here) break;
      left -= here;
    }
    std::uint64_t bits = words_[word];
    for (; left != 0; --left) bits &= bits - 1;
    return start_ + (word * 64 + static_cast<unsigned>(std::countr_zero(bits))) * kRegionBytes;
  }

  /// Marks the region as in use.
  /// \pre  it is one of them
  void remove(const char* region) noexcept {
    const auto index = static_cast<std::size_t>(region - start_) / kRegionBytes;
    STRATA_DCHECK((words_[index / 64] >> index % 64 & 1) != 0);
    words_[index / 64] &= ~(std::uint64_t{1} << index % 64);
    --count_;
  }

  /// Calls visit(char* region) for each of them, upwards, and drops them all.
  template <typename Visit>
  void give_up(Visit visit) noexcept {
    while (count_ != 0) {
      char* const region = choose(0);
      remove(region);
      visit(region);
    }
  }

 private:
  char* start_ = nullptr;
  std::size_t count_ = 0;
  std::uint64_t words_[kMost / 64] = {};  // bit r: region r is one of them
};

}  // namespace strata
