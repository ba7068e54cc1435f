// Linked against the shelf alone.
#include <strata/page_arena.hpp>

#include <cstdio>
#include <cstring>

int main() {
  strata::PageArena arena(1 << 20);
  std::size_t pages = 0;
  while (void* page = arena.allocate_page()) {
    std::memset(page, 'x', arena.page_size());
    ++pages;
  }
  if (pages != arena.total_pages() || pages * arena.page_size() != 1 << 20) return 1;
  std::puts("consumer ok");
}
