#include "span/hole_batch.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <bit>

namespace strata {
namespace {

/// The first object from `index` on whose bit, after `flip`, is set; object_count if there is none.
std::uint32_t next_bit(const Span& span, std::uint32_t index, std::uint64_t flip) noexcept {
  while (index < span.object_count) {
    const std::uint64_t word = (span.free_bits[index / 64] ^ flip) >> index % 64;
    if (word != 0) {
      return std::min(index + static_cast<std::uint32_t>(std::countr_zero(word)),
                      span.object_count);
    }
    index = (index / 64 + 1) * 64;
  }
  return span.object_count;
}

std::uint32_t next_free(const Span& span, std::uint32_t index) noexcept {
  return next_bit(span, index, 0);
}

std::uint32_t next_taken(const Span& span, std::uint32_t index) noexcept {
  return next_bit(span, index, ~std::uint64_t{0});
}

// Derived: between two holes is an object, and an OS page that is none.
constexpr std::size_t kMostOfSpan = 16;
static_assert(
    [] {
      constexpr std::size_t kSmallestOsPage = 4096;
      for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
        const std::size_t bytes = span_pages_of(c) * kPageBytes;
        const std::size_t most =
            std::min(bytes / SizeClassMap::bytes_of(c), bytes / kSmallestOsPage);
        if (most / 2 + 1 > kMostOfSpan) return false;
      }
      return true;
    }(),
    "a batch has room for all holes of a span");

struct Holes {
  std::size_t count;
  std::size_t bytes;
};

/// Writes the span's holes to `ranges`. The tail behind the last object belongs to that object.
Holes find_holes(const Span& span, os::PageRange* ranges) noexcept {
  const std::size_t os_page = os::page_bytes();
  const std::uint32_t lowest = span.first_object != 0 ? 0 : span.first_word * 64;
  Holes holes{0, 0};
  for (std::uint32_t index = lowest; index < span.object_count;) {
    const std::uint32_t first = next_free(span, index);
    const std::uint32_t last = next_taken(span, first);
    const std::size_t begin = detail::round_up(std::size_t{first} * span.object_bytes, os_page);
    const std::size_t end = last == span.object_count
                                ? span.bytes()
                                : std::size_t{last} * span.object_bytes / os_page * os_page;
    if (first < last && begin < end) {
      ranges[holes.count++] = {span.start + begin, end - begin};
      holes.bytes += end - begin;
    }
    index = last;
  }
  return holes;
}

bool is_of(const Span& span, const os::PageRange& range) noexcept {
  const auto* const start = static_cast<const char*>(range.address);
  return start >= span.start && start < span.start + span.bytes();
}

}  // namespace

bool HoleBatch::is_full() const noexcept {
  return sought_count_ == kMostSpans || range_count_ + kMostOfSpan > kMostRanges;
}

std::size_t HoleBatch::add(Span& span) noexcept {
  STRATA_DCHECK(!is_full());
  if (source_.keeps_records_) return 0;
  ++sought_count_;
  span.has_left_holes = false;
  const Holes holes = find_holes(span, ranges_ + range_count_);
  if (holes.count == 0 || !source_.is_worth_holes(span, holes.bytes)) return 0;
  range_count_ += holes.count;
  spans_[span_count_++] = &span;
  return holes.bytes > span.hole_bytes ? holes.bytes - span.hole_bytes : 0;
}

void HoleBatch::decommit() noexcept {
  for (const Span* const span : spans()) source_.prepare_holes(*span);
  source_.pages_.decommit_each(ranges_, range_count_);
}

std::size_t HoleBatch::settle() noexcept {
  std::size_t returned = 0;
  const os::PageRange* range = ranges_;
  for (Span* const span : spans()) {
    std::size_t bytes = 0;
    for (; range != ranges_ + range_count_ && is_of(*span, *range); ++range) {
      bytes += range->bytes;
      span->has_left_holes |= range->bytes == 0;
    }
    const std::size_t opened = source_.open_holes(*span, bytes);
    if (why_ == Why::kGrowth) span->hole_bytes_for_growth += static_cast<std::uint32_t>(opened);
    returned += opened;
  }
  return returned;
}

}  // namespace strata
