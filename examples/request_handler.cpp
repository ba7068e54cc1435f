// A request handler on one arena: everything a request needs is cut from pages in order, and all of
// it is freed at once after the answer.
#include <strata/memory_resource.hpp>
#include <strata/page_arena.hpp>

#include <cstdio>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

struct Header {
  using allocator_type = std::pmr::polymorphic_allocator<char>;
  Header(std::string_view n, std::string_view v, allocator_type a) : name(n, a), value(v, a) {}
  Header(Header&& other, allocator_type a)
      : name(std::move(other.name), a), value(std::move(other.value), a) {}
  Header(Header&&) = default;
  std::pmr::string name;
  std::pmr::string value;
};

std::size_t handle(std::string_view request, std::pmr::memory_resource& memory) {
  std::pmr::vector<Header> headers(&memory);
  while (!request.empty()) {
    const std::size_t end = request.find('\n');
    const std::string_view line = request.substr(0, end);
    if (const std::size_t colon = line.find(": "); colon != line.npos) {
      headers.emplace_back(line.substr(0, colon), line.substr(colon + 2));
    }
    request.remove_prefix(end == request.npos ? request.size() : end + 1);
  }
  std::pmr::string answer(&memory);
  for (const Header& header : headers) answer += header.name + " = " + header.value + "; ";
  return answer.size();
}

int main() {
  strata::PageArena arena(1 << 20);
  // A request that needs more than a mebibyte gets the rest from the heap instead of failing.
  strata::MemoryResource<strata::PageArena> memory(arena, std::pmr::new_delete_resource());
  std::size_t answered = 0;
  std::size_t most_pages = 0;
  for (int i = 0; i < 1000; ++i) {
    answered +=
        handle("host: example.org\nagent: a program with a rather long name\naccept: *\n", memory);
    if (arena.pages_allocated() > most_pages) most_pages = arena.pages_allocated();
    memory.reset();
  }
  std::printf("1000 requests, %zu bytes of answers, pages in use: %zu at most\n", answered,
              most_pages);
  return answered > 0 && most_pages > 0 && arena.pages_allocated() == 0 ? 0 : 1;
}
