#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/page_source.h"
#include "span/huge_page_policy.h"

namespace strata {

/// Decides which huge blocks ask for huge pages. HugeHeap owns it. Under kAuto a block does, unless
/// the one looked at last was touched here and there: buffers of which a program uses only the
/// beginning, or each of many threads a few places, would take 2 MiB at every place.
///
/// A block is looked at when it is freed, and in use when others begin. Most blocks are filled from
/// their beginning, and this one may still be, unless something behind a gap is touched, or the
/// program has had it for a while. A block that has grown is judged by its own beginning.
/// \threads  Any number at once.
class HugeBlockPolicy {
 public:
  // Chosen: half a huge page, which has small ones, so that gaps in it show. At most an eighth of a
  // block at both its ends.
  static constexpr std::size_t kSmallEnd = std::size_t{1} << 20;

  void configure(HugePages huge_pages) noexcept { huge_pages_ = huge_pages; }

  /// Whether a new block of so many bytes should ask for huge pages.
  bool is_worth_it(std::size_t bytes) const noexcept {
    if (huge_pages_ == HugePages::kAlways) return bytes >= kFromBytes;
    return depends_on(bytes) && fills_them_.load(std::memory_order_relaxed);
  }
  /// The same for a block that has grown by remapping, by what of its beginning is touched.
  /// \cost  two system calls
  bool is_worth_it_as_grown(os::PageSource& pages, const void* block,
                            std::size_t bytes) const noexcept {
    if (!depends_on(bytes)) return is_worth_it(bytes);
    return pages.is_mostly_touched(block, kBeginning);
  }
  /// Whether what is touched of blocks of so many bytes matters.
  bool depends_on(std::size_t bytes) const noexcept {
    return bytes >= kFromBytes && huge_pages_ == HugePages::kAuto;
  }

  /// Looks at a block that the program frees.
  /// \pre   depends_on(bytes)
  /// \cost  two system calls
  void note_end(os::PageSource& pages, const void* block) noexcept {
    set(pages.is_mostly_touched(block, kBeginning));
  }
  /// Looks at a block in use since `age_ns`. If it has gone meanwhile, what replaced it counts.
  /// \pre   depends_on(bytes)
  /// \cost  up to six system calls
  void note_use(os::PageSource& pages, const void* block, std::size_t bytes,
                std::uint64_t age_ns) noexcept {
    if (age_ns < kTellingNs) return;
    const bool is_begun = pages.is_mostly_touched(block, kSmallEnd);
    if (is_begun && pages.is_mostly_touched(block, kBeginning)) {
      set(true);
    } else if (is_settled(age_ns)) {
      set(false);
    } else if (!is_begun) {
      const char* const behind = static_cast<const char*>(block) + kSmallEnd;
      const std::size_t rest = std::min(bytes, kMostLookedAt) - kSmallEnd;
      if (os::resident_bytes_in(behind, rest) != 0) set(false);
    }
  }
  /// Whether there is nothing more to learn from a block that is in use.
  static constexpr bool is_settled(std::uint64_t age_ns) noexcept { return age_ns >= kSettledNs; }

 private:
  // Chosen: a block this large wastes at most an eighth of itself by its last, half-used huge page.
  static constexpr std::size_t kFromBytes = std::size_t{16} << 20;
  // Chosen: four huge pages, of which the first two are not most.
  static constexpr std::size_t kBeginning = std::size_t{8} << 20;
  static constexpr std::size_t kMostLookedAt = std::size_t{64} << 20;
  // Chosen: a thread with a processor of its own has filled the beginning, and the threads of a
  // server begin some milliseconds apart.
  static constexpr std::uint64_t kTellingNs = 2'000'000;
  // Chosen: enough to fill the beginning beside 30 other threads.
  static constexpr std::uint64_t kSettledNs = 20'000'000;

  void set(bool fills_them) noexcept { fills_them_.store(fills_them, std::memory_order_relaxed); }

  HugePages huge_pages_ = HugePages::kAuto;
  std::atomic<bool> fills_them_{true};  // relaxed: a hint
};

}  // namespace strata
