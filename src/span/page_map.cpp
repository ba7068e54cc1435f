#include "span/page_map.h"

#include "base/fatal.h"

namespace strata {
namespace {

std::size_t round_to_os_pages(std::size_t bytes) noexcept {
  return (bytes + os::page_bytes() - 1) & ~(os::page_bytes() - 1);
}

std::size_t class_table_bytes(std::uintptr_t page_limit) noexcept {
  return round_to_os_pages(page_limit);
}

std::size_t region_table_bytes(std::uintptr_t page_limit) noexcept {
  return round_to_os_pages(page_limit / kPagesPerRegion * sizeof(Region*));
}

}  // namespace

bool PageMap::cover(std::uintptr_t limit, os::PageSource& pages) noexcept {
  STRATA_DCHECK(page_limit_ == 0);
  const std::uintptr_t page_limit = limit >> kPageShift;
  auto* classes = static_cast<std::uint8_t*>(pages.map(class_table_bytes(page_limit)));
  if (classes == nullptr) return false;
  auto* regions = static_cast<Region**>(pages.map(region_table_bytes(page_limit)));
  if (regions == nullptr) {
    pages.unmap(classes, class_table_bytes(page_limit));
    return false;
  }
  classes_ = classes;
  regions_ = regions;
  page_limit_ = page_limit;
  return true;
}

void PageMap::discard(os::PageSource& pages) noexcept {
  if (page_limit_ == 0) return;
  pages.unmap(classes_, class_table_bytes(page_limit_));
  pages.unmap(regions_, region_table_bytes(page_limit_));
  page_limit_ = 0;
  classes_ = nullptr;
  regions_ = nullptr;
}

}  // namespace strata
