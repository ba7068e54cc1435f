// A server for several tenants. Each keeps its data in a heap with a limit. Each request has memory
// of its own, freed at once after the answer: an arena if nothing is freed on the way, a heap if
// buffers come and go. `tenants heap|reset|arena|none` serves requests of one kind.
#include <strata/heap.hpp>
#include <strata/memory_resource.hpp>
#include <strata/page_arena.hpp>

#include <cstdio>
#include <cstring>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

namespace {

struct Tenant {
  explicit Tenant(const char* name) : heap(options(name)) {}
  static strata::Heap::Options options(const char* name) {
    strata::Heap::Options options;
    options.name = name;
    options.hard_limit_bytes = 4 << 20;
    return options;
  }

  strata::Heap heap;
  strata::MemoryResource<strata::Heap> memory{heap};
  std::pmr::vector<std::pmr::string> documents{&memory};
};

/// Joins sixty words to a text, in memory of the request.
std::size_t answer(std::pmr::memory_resource& memory) {
  std::pmr::vector<std::pmr::string> words(&memory);
  for (int i = 0; i < 60; ++i) words.emplace_back(static_cast<std::size_t>(20 + i), 'w');
  std::pmr::string text(&memory);
  for (const std::pmr::string& word : words) text += word;
  return text.size();
}

std::size_t serve_from_heaps(int requests) {
  std::size_t answered = 0;
  for (int i = 0; i < requests; ++i) {
    strata::Heap heap;
    strata::MemoryResource<strata::Heap> memory(heap);
    answered += answer(memory);
  }
  return answered;
}

/// Reuses one heap, which keeps its memory when it is reset.
std::size_t serve_from_a_heap_that_is_reset(int requests) {
  std::size_t answered = 0;
  strata::Heap heap;
  strata::MemoryResource<strata::Heap> memory(heap);
  for (int i = 0; i < requests; ++i, heap.reset()) answered += answer(memory);
  return answered;
}

std::size_t serve_from_an_arena(int requests) {
  std::size_t answered = 0;
  strata::PageArena arena(1 << 20);
  strata::MemoryResource<strata::PageArena> memory(arena);
  for (int i = 0; i < requests; ++i, memory.reset()) answered += answer(memory);
  return answered;
}

/// One tenant exceeds its limit: its allocation fails, and no other tenant is affected.
bool keeps_tenants_apart() {
  Tenant modest("modest");
  Tenant greedy("greedy");
  modest.documents.emplace_back(100'000u, 'm');
  std::size_t kept = 0;
  try {
    for (;; ++kept) greedy.documents.emplace_back(100'000u, 'g');
  } catch (const std::bad_alloc&) {
    std::printf("tenant '%s' was refused after %zu documents, %zu of %zu bytes held\n",
                greedy.heap.name(), kept, greedy.heap.statistics().held,
                greedy.heap.statistics().hard_limit);
  }
  modest.documents.emplace_back(100'000u, 'm');
  return kept > 10 && greedy.heap.statistics().refusals > 0 && modest.documents.size() == 2 &&
         greedy.heap.statistics().peak <= greedy.heap.statistics().hard_limit;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRequests = 1000;
  const char* const kind = argc > 1 ? argv[1] : "all";
  const bool is_all = std::strcmp(kind, "all") == 0;
  const std::size_t expected =
      serve_from_an_arena(is_all ? kRequests : 1) / (is_all ? kRequests : 1);
  std::size_t answered = kRequests * expected;
  if (is_all || std::strcmp(kind, "heap") == 0) answered = serve_from_heaps(kRequests);
  if (is_all || std::strcmp(kind, "reset") == 0)
    answered = serve_from_a_heap_that_is_reset(kRequests);
  if (std::strcmp(kind, "arena") == 0) answered = serve_from_an_arena(kRequests);
  if (answered != kRequests * expected) return 1;
  return keeps_tenants_apart() ? 0 : 1;
}
