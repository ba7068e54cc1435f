#pragma once

#include <cstddef>
#include <span>

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
  /// Whether another span may find no room, or holes of kMostSpans were sought.
  bool is_full() const noexcept;

  /// Adds all holes of a span, including those decommitted before.
  /// \pre      it is not full
  /// \returns  Bytes of the span's holes that are new.
  std::size_t add(Span& span) noexcept;

  /// Decommits what was added.
  void decommit() noexcept;

  /// Records in the spans what decommit() did.
  /// \returns  bytes decommitted that were held before
  std::size_t settle() noexcept;

  /// The spans that have a hole.
  std::span<Span* const> spans() const noexcept { return {spans_, span_count_}; }
  /// Begins anew.
  void clear() noexcept { sought_count_ = span_count_ = range_count_ = 0; }

  // Chosen: the list's lock is held while the holes of so many spans are sought, and the free
  // objects of those that have a hole serve nobody during the system call.
  static constexpr std::size_t kMostSpans = 16;

 private:
  // Chosen: the holes of a dozen spans of small objects, in 1.2 KiB of stack.
  static constexpr std::size_t kMostRanges = 64;

  SpanSource& source_;
  const Why why_;
  os::PageRange ranges_[kMostRanges];  // by span
  std::size_t range_count_ = 0;
  Span* spans_[kMostSpans];  // that have a range; in the order of their ranges
  std::size_t span_count_ = 0;
  std::size_t sought_count_ = 0;  // those without a hole, too
};

}  // namespace strata
