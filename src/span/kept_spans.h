#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/fatal.h"
#include "base/intrusive_list.h"
#include "span/page.h"

namespace strata {

/// Freed large spans that stay whole, since programs often ask next for as many pages as they freed
/// last. A PageShard owns them.
/// Always: bit n of sizes_ is set while there is one of n pages. (check_invariants)
/// \threads  One at a time, under its owner's lock, apart from has().
class KeptSpans {
 public:
  /// Whether it has one of so many pages: a hint without the owner's lock.
  bool has(unsigned page_count) const noexcept { return (sizes() >> page_count & 1) != 0; }
  bool is_empty() const noexcept { return sizes() == 0; }
  std::size_t count() const noexcept { return count_; }
  /// \cost  a look at each of them
  std::size_t pages() const noexcept {
    std::size_t pages = 0;
    for_each([&](const Span& span) { pages += span.page_count; });
    return pages;
  }

  void add(Span& span) noexcept {
    const unsigned page_count = span.page_count;
    by_pages_[page_count].push_front(span);
    set_sizes(sizes() | size_bit(page_count));
    ++count_;
  }

  /// Takes the span of so many pages that was added last.
  /// \returns  nullptr if there is none
  Span* take(unsigned page_count) noexcept {
    auto& spans = by_pages_[page_count];
    Span* const span = spans.pop_front();
    if (span != nullptr) count_taken(page_count);
    return span;
  }

  /// Takes, among the spans with the fewest pages, the one added first.
  /// \returns  nullptr if there is none at all
  Span* take_any() noexcept {
    if (is_empty()) return nullptr;
    const auto page_count = static_cast<unsigned>(std::countr_zero(sizes()));
    auto& spans = by_pages_[page_count];
    Span* const span = spans.back();
    spans.remove(*span);
    count_taken(page_count);
    return span;
  }

  template <typename Visit>
  void for_each(Visit visit) const noexcept {
    for (const auto& spans : by_pages_) {
      for (const Span& span : spans) visit(span);
    }
  }

  void check_invariants() const noexcept {
    std::size_t spans = 0;
    for_each([&](const Span&) { ++spans; });
    STRATA_INVARIANT(spans == count_, "the count of kept spans is wrong");
    for (unsigned count = 0; count <= kPagesPerRegion; ++count) {
      const Span* const span = by_pages_[count].front();
      STRATA_INVARIANT(has(count) == (span != nullptr), "the sizes of kept spans are wrong");
      STRATA_INVARIANT(span == nullptr || span->page_count == count,
                       "a kept span is in the wrong list");
    }
  }

 private:
  void count_taken(unsigned page_count) noexcept {
    if (by_pages_[page_count].is_empty()) set_sizes(sizes() & ~size_bit(page_count));
    --count_;
  }
  static std::uint64_t size_bit(unsigned page_count) noexcept {
    return std::uint64_t{1} << page_count;
  }
  std::uint64_t sizes() const noexcept { return sizes_.load(std::memory_order_relaxed); }
  void set_sizes(std::uint64_t sizes) noexcept { sizes_.store(sizes, std::memory_order_relaxed); }

  IntrusiveList<Span> by_pages_[kPagesPerRegion + 1];  // the latest first
  std::size_t count_ = 0;
  std::atomic<std::uint64_t> sizes_{0};  // relaxed: written under the owner's lock, read anywhere
};

}  // namespace strata
