// PageArena: pages come in order, belong to whoever they were handed to, and are zero when fresh.
#include <strata/page_arena.hpp>

#include <cstring>
#include <utility>

#include "choices.h"

namespace {

using strata::fuzz::require;

bool is_filled_with(const void* p, std::size_t bytes, unsigned char value) {
  const auto* at = static_cast<const unsigned char*>(p);
  return at[0] == value && at[bytes / 2] == value && at[bytes - 1] == value;
}

}  // namespace

STRATA_FUZZ(choices) {
  const std::size_t page = choices.flag() ? 0 : choices.alignment(22);
  const std::size_t bytes = choices.flag() ? choices.size(1 << 24) : 4096 * choices.below(2048);
  const char* reason = nullptr;
  auto made = strata::PageArena::try_create(bytes, page, &reason);
  require(made.has_value() == (reason == nullptr), "no arena has a reason, and an arena has none");
  if (!made) return;
  strata::PageArena arena = *std::move(made);
  const std::size_t page_bytes = arena.page_size();
  require(arena.total_pages() * page_bytes == bytes, "an arena has the pages asked for");
  std::size_t taken = 0;
  std::size_t dirty = 0;  // pages that may not read as zero
  char* first = nullptr;
  while (!choices.is_over()) {
    const std::uint8_t action = choices.byte();
    if (action < 160) {
      const std::size_t count = action < 80 ? 1 : choices.below(20);
      auto* p =
          static_cast<char*>(action < 80 ? arena.allocate_page() : arena.allocate_pages(count));
      const bool fits = count != 0 && count <= arena.total_pages() - taken;
      require((p != nullptr) == fits, "pages are handed out while there are enough");
      if (p == nullptr) continue;
      if (first == nullptr) first = p;
      require(p == first + taken * page_bytes, "pages come in order");
      require(arena.owns(p) && arena.owns(p + count * page_bytes - 1), "an arena owns its pages");
      for (std::size_t i = 0; i < count; ++i, ++taken) {
        if (taken >= dirty)
          require(is_filled_with(p + i * page_bytes, page_bytes, 0), "fresh pages are zero");
        std::memset(p + i * page_bytes, 0xa5, page_bytes < 4096 ? page_bytes : 4096);
        p[(i + 1) * page_bytes - 1] = static_cast<char>(0xa5);
      }
      if (dirty < taken) dirty = taken;
    } else if (action < 190) {
      arena.reset();
      taken = 0;
    } else if (action < 220) {
      if (arena.release_idle()) dirty = taken;
    } else {
      strata::PageArena other = std::move(arena);
      require(arena.allocate_page() == nullptr && arena.total_pages() == 0,
              "a moved arena is empty");
      arena = std::move(other);
    }
    require(arena.pages_allocated() == taken, "an arena counts its pages");
    require(arena.available_pages() == arena.total_pages() - taken, "an arena counts what is left");
  }
}
