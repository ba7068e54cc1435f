#pragma once

#include <cstddef>
#include <utility>

#include "os/page_source.h"
#include "span/span_source.h"

namespace strata {

/// Collects holes of spans (OS pages that hold only free objects) and decommits those of several
/// spans by one system call.
///
/// A CentralList adds spans under its lock, takes them out of its lists, and holds no lock during
/// the system call. Objects in use may be released to the spans meanwhile; none is claimed.
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
  ~HoleBatch() { STRATA_DCHECK(is_empty()); }

  bool is_empty() const noexcept { return span_count_ == 0; }
  /// Whether another span may find no room.
  bool is_full() const noexcept;

  /// Adds all holes of a span, including those decommitted before.
  /// \pre      it is not full
  /// \returns  Bytes of the span's holes that are new.
  std::size_t add(Span& span) noexcept;

  /// Decommits what was added.
  void decommit() noexcept;

  /// Records in the spans what decommit() did, and begins anew.
  /// \param then  then(Span&) is called for each span
  /// \returns  bytes decommitted that were held before
  template <typename Then>
  std::size_t settle(Then then) noexcept {
    std::size_t returned = 0;
    const os::PageRange* range = ranges_;
    const std::size_t count = std::exchange(span_count_, 0);
    for (std::size_t i = 0; i < count; ++i) {
      returned += settle_span(*spans_[i], range);
      then(*spans_[i]);
    }
    range_count_ = 0;
    return returned;
  }

  template <typename Visit>
  void for_each_span(Visit visit) const noexcept {
    for (std::size_t i = 0; i < span_count_; ++i) visit(*spans_[i]);
  }

 private:
  // Chosen: the holes of a dozen spans of small objects, in 1.2 KiB of stack.
  static constexpr std::size_t kMostRanges = 64;
  // Chosen: the free objects of so many spans serve nobody during the system call.
  static constexpr std::size_t kMostSpans = 16;

  std::size_t settle_span(Span& span, const os::PageRange*& range) noexcept;

  SpanSource& source_;
  const Why why_;
  os::PageRange ranges_[kMostRanges];  // by span
  std::size_t range_count_ = 0;
  Span* spans_[kMostSpans];  // that have a range; in the order of their ranges
  std::size_t span_count_ = 0;
};

}  // namespace strata
