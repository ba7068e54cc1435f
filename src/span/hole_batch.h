#pragma once

#include <cstddef>

#include "os/page_source.h"
#include "span/span_source.h"

namespace strata {

/// Collects holes of spans (OS pages that hold only free objects) and decommits those of several
/// spans by one system call.
///
/// A CentralList that adds a span holds its lock until give_back(), so that no object of the span
/// is claimed or released meanwhile.
class HoleBatch {
 public:
  enum class Why : bool {
    kIdle,
    kGrowth,  ///< in exchange for what the heap grew by
  };

  explicit HoleBatch(SpanSource& spans, Why why = Why::kIdle) noexcept
      : source_(spans), why_(why) {}
  HoleBatch(const HoleBatch&) = delete;
  HoleBatch& operator=(const HoleBatch&) = delete;
  ~HoleBatch() { STRATA_DCHECK(range_count_ == 0); }

  /// Adds all holes of a span, including those decommitted before. Decommits what was added so far
  /// if there is no room for more.
  /// \returns  Bytes of the span's holes that are new.
  std::size_t add(Span& span) noexcept;

  /// \returns  Bytes decommitted since the last call that were held before.
  std::size_t give_back() noexcept;

 private:
  // Chosen: the holes of a dozen spans of small objects, in 1.5 KiB of stack.
  static constexpr std::size_t kMostRanges = 64;

  void flush() noexcept;

  SpanSource& source_;
  const Why why_;
  os::PageRange ranges_[kMostRanges];  // by span
  std::size_t range_count_ = 0;
  Span* spans_[kMostRanges];  // that have a range; in the order of their ranges
  std::size_t span_count_ = 0;
  std::size_t returned_ = 0;
};

}  // namespace strata
