#pragma once

#include <strata/detail/hints.hpp>
#include <strata/detail/refuse.hpp>

#include <cstddef>
#include <optional>

namespace strata {
namespace os {
class PageSource;
}

/// Hands out the pages of one reserved region in order. A single page cannot be freed; reset()
/// takes all of them back at once.
///
///   begin_         next_                        end_
///   [ handed out   | not yet handed out          ]      page_size() apart, aligned to it
///
/// At first only addresses are reserved; memory is used as pages are touched. A page handed out for
/// the first time, or after release_idle(), reads as zero.
///
/// Move-only; must outlive everything that was cut from its pages.
/// \threads  One at a time.
class PageArena {
 public:
  /// Reserves `bytes` in pages of `page_bytes`; 0 means the size of an OS page.
  /// \errors   std::invalid_argument with a sentence if bytes is 0 or no multiple of the page size,
  ///           or the page size is no power of two of at least an OS page; std::bad_alloc if the
  ///           kernel refuses. Without exceptions the sentence ends the program: use try_create().
  /// \cost     One system call; four, and one hint, for pages larger than the system's.
  STRATA_MAY_REFUSE explicit PageArena(std::size_t bytes, std::size_t page_bytes = 0)
      : PageArena(detail::made_or_refused(
            [&](const char** reason) { return try_create(bytes, page_bytes, reason); }, kRefused)) {
  }

  /// The same over another page source, which must outlive the arena. For Strata's own tests: no
  /// public header has the type.
  STRATA_MAY_REFUSE PageArena(std::size_t bytes, std::size_t page_bytes, os::PageSource& source)
      : PageArena(detail::made_or_refused(
            [&](const char** reason) { return try_create(bytes, page_bytes, reason, &source); },
            kRefused)) {}

  /// The same without exceptions.
  /// \returns  The arena, or nothing; then *reason is one sentence in static memory.
  static std::optional<PageArena> try_create(std::size_t bytes, std::size_t page_bytes = 0,
                                             const char** reason = nullptr,
                                             os::PageSource* source = nullptr) noexcept;

  PageArena(PageArena&& other) noexcept;
  PageArena& operator=(PageArena&& other) noexcept;
  PageArena(const PageArena&) = delete;
  PageArena& operator=(const PageArena&) = delete;
  ~PageArena();

  /// \returns  The next page; nullptr when all are handed out.
  /// \cost     A comparison and an addition.
  void* allocate_page() noexcept {
    if (detail::is_unlikely(next_ == end_)) return nullptr;
    void* page = next_;
    next_ += page_bytes_;
    return page;
  }

  /// \returns  `count` pages side by side, count > 0; nullptr, with none taken, if fewer are left.
  /// \cost     A division more than allocate_page().
  void* allocate_pages(std::size_t count) noexcept {
    if (detail::is_unlikely(count == 0 || count > available_pages())) return nullptr;
    void* pages = next_;
    next_ += count * page_bytes_;
    return pages;
  }

  /// Takes all pages back; their contents stay until written.
  void reset() noexcept { next_ = begin_; }

  /// Decommits every page that is not handed out; the addresses stay reserved.
  /// \returns  False if the kernel refused.
  /// \cost     One system call.
  bool release_idle() noexcept;

  std::size_t page_size() const noexcept { return page_bytes_; }
  std::size_t pages_allocated() const noexcept { return pages_in(next_ - begin_); }
  std::size_t available_pages() const noexcept { return pages_in(end_ - next_); }
  std::size_t total_pages() const noexcept { return pages_in(end_ - begin_); }

  /// \returns  True if p is in the region, handed out or not.
  bool owns(const void* p) const noexcept {
    return detail::address_of(p) - detail::address_of(begin_) <
           static_cast<std::size_t>(end_ - begin_);
  }

 private:
  PageArena(char* begin, std::size_t bytes, std::size_t page_bytes, os::PageSource* source) noexcept
      : begin_(begin),
        next_(begin),
        end_(begin + bytes),
        page_bytes_(page_bytes),
        source_(source) {}

  std::size_t pages_in(std::ptrdiff_t bytes) const noexcept {
    return page_bytes_ == 0 ? 0 : static_cast<std::size_t>(bytes) / page_bytes_;
  }

  static const char kRefused[];

  char* begin_ = nullptr;
  char* next_ = nullptr;
  char* end_ = nullptr;
  std::size_t page_bytes_ = 0;
  os::PageSource* source_ = nullptr;
};

}  // namespace strata
