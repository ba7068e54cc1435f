#include "user_heap/user_pages.h"

#include <algorithm>
#include <cstdint>

#include "base/fatal.h"
#include "base/text_writer.h"
#include "os/errors.h"
#include "user_heap/heap_table.h"

namespace strata {
namespace {

[[noreturn, gnu::cold]] void die_of_range(HeapNumber heap, const void* address,
                                          std::string_view what) noexcept {
  TextWriter before;
  before.text("the page source of ");
  g_heap_table.write_name(heap, before);
  before.text(" gave ");
  fatal_pointer(before.view(), address, what);
}

}  // namespace

void* UserPages::map(std::size_t bytes) noexcept { return map_aligned(bytes, os::page_bytes()); }

void* UserPages::map_aligned(std::size_t bytes, std::size_t alignment) noexcept {
  os::SavedErrno keep;
  const std::size_t asked = std::max(alignment, os::page_bytes());
  void* const address = source_.map(source_.context, bytes, asked);
  if (address != nullptr) expect_apt(address, bytes, asked);
  return address;
}

/// Dies unless the memory that the user's code gave is what was requested, as far as that can be
/// checked.
void UserPages::expect_apt(const void* address, std::size_t bytes,
                           std::size_t alignment) const noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (start % alignment != 0) {
    TextWriter what;
    what.text(": it is not aligned to ").decimal(alignment).text(" bytes");
    die_of_range(heap_, address, what.view());
  }
  for (std::uintptr_t at = start & ~(kRegionBytes - 1); at < start + bytes; at += kRegionBytes) {
    if (g_heap_map.region_of(reinterpret_cast<const void*>(at)) != nullptr)
      die_of_range(heap_, address, ": blocks of a heap lie there already");
  }
}

bool UserPages::unmap(void* address, std::size_t bytes) noexcept {
  os::SavedErrno keep;
  source_.unmap(source_.context, address, bytes);
  return true;
}

bool UserPages::decommit(void* address, std::size_t bytes) noexcept {
  if (!can_purge()) return false;
  os::SavedErrno keep;
  return source_.purge(source_.context, address, bytes);
}

}  // namespace strata
