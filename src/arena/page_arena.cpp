#include <strata/page_arena.hpp>

#include <bit>
#include <utility>

#include "os/page_source.h"

namespace strata {

const char PageArena::kRefused[] = "PageArena: the kernel refuses a region of this size";

std::optional<PageArena> PageArena::try_create(std::size_t bytes, std::size_t page_bytes,
                                               const char** reason,
                                               os::PageSource* source) noexcept {
  if (page_bytes == 0) page_bytes = os::page_bytes();
  if (!std::has_single_bit(page_bytes) || page_bytes < os::page_bytes()) {
    return detail::refused("PageArena: the page size is not a power of two of at least an OS page",
                           reason);
  }
  if (bytes == 0) return detail::refused("PageArena: the size is 0", reason);
  if (bytes % page_bytes != 0) {
    return detail::refused("PageArena: the size is not a multiple of the page size", reason);
  }
  if (source == nullptr) source = &os::kernel_pages();
  auto* begin = static_cast<char*>(source->map_aligned(bytes, page_bytes));
  if (begin == nullptr) return detail::refused(kRefused, reason);
  // The user wants pages of this size. The advice is a hint, so a refusal is no error.
  if (page_bytes > os::page_bytes()) source->advise_huge(begin, bytes);
  if (reason != nullptr) *reason = nullptr;
  return PageArena(begin, bytes, page_bytes, source);
}

PageArena::PageArena(PageArena&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      next_(std::exchange(other.next_, nullptr)),
      end_(std::exchange(other.end_, nullptr)),
      page_bytes_(other.page_bytes_),
      source_(other.source_) {}

PageArena& PageArena::operator=(PageArena&& other) noexcept {
  // `other` unmaps what this one held, when it ends.
  std::swap(begin_, other.begin_);
  std::swap(next_, other.next_);
  std::swap(end_, other.end_);
  std::swap(page_bytes_, other.page_bytes_);
  std::swap(source_, other.source_);
  return *this;
}

PageArena::~PageArena() {
  if (begin_ != nullptr) source_->unmap(begin_, static_cast<std::size_t>(end_ - begin_));
}

bool PageArena::release_idle() noexcept {
  return next_ == end_ || source_->decommit(next_, static_cast<std::size_t>(end_ - next_));
}

}  // namespace strata
