// Linked against both the heaps and the shelf, by any compiler, with any standard library, in any
// version of C++: calls into the archives work, and inline code compiles.
#include <strata/strata.hpp>

#include <cstdio>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

using Text = std::basic_string<char, std::char_traits<char>, strata::Allocator<char, strata::Heap>>;

bool heaps_serve_containers() {
  strata::Heap::Options options;
  options.name = "dialects";
  options.hard_limit_bytes = 8 << 20;
  std::optional<strata::Heap> heap = strata::Heap::try_create(options);
  if (!heap || heap->allocate(16 << 20) != nullptr) return false;
  std::vector<int, strata::Allocator<int, strata::Heap>> numbers(1000, 7, *heap);
  Text text("longer than what a string keeps in itself", *heap);
  return heap->owns(numbers.data()) && heap->owns(text.data());
}

bool refusals_reach_the_program() {
  const char* reason = nullptr;
  const bool is_refused = !strata::CoalescingHeap::try_create(0, &reason) && reason != nullptr;
  try {
    strata::PageArena arena(0);
  } catch (const std::invalid_argument&) {
    return is_refused;
  }
  return false;
}

// Only compiled: no malloc of Strata's is linked in.
static_assert(std::is_same_v<decltype(strata::make_unique<int[]>(3)),
                             std::unique_ptr<int[], strata::Deleter<int[]>>>);

bool shelf_serves() {
  auto arena = strata::PageArena::try_create(1 << 20);
  if (!arena) return false;
  strata::BlockAllocator blocks(*arena, 64, 100);
  std::list<int, strata::Allocator<int, strata::BlockAllocator>> numbers({1, 2, 3}, blocks);
  strata::SizeClassAllocator sizes({32, 64, 128});
  strata::ObjectPool<std::string> words(10);
  auto heaps = strata::ThreadHeaps::try_create({});
  if (!heaps || numbers.back() != 3 || *words.make("word") != "word") return false;
  void* block = heaps->allocate(100);
  std::thread([&] { heaps->deallocate(block); }).join();
  return *strata::make_unique_from<int>(sizes, 7) == 7;
}

bool arrays_of_arrays_are_made_and_end() {
  struct Counted {
    Counted() { ++alive(); }
    ~Counted() { --alive(); }
    static int& alive() {
      static int count = 0;
      return count;
    }
  };
  strata::Heap heap;
  auto grid = strata::make_unique_from<Counted[][3][2]>(heap, 4);
  const bool are_all_alive = Counted::alive() == 24;
  grid.reset();
  return are_all_alive && Counted::alive() == 0 && heap.statistics().live == 0;
}

bool messages_arrive() {
  static strata::MessageQueue<std::string, 64> queue;
  std::thread([] { queue.try_emplace("first in"); }).join();
  bool is_first = false;
  queue.try_consume([&](std::string& message) { is_first = message == "first in"; });
  return is_first;
}

bool resources_serve() {
#if __has_include(<memory_resource>)  // libc++ has it from 16 on
  strata::PageArena arena(1 << 20);
  strata::MemoryResource<strata::PageArena> resource(arena);
  std::pmr::map<int, int> squares({{3, 9}, {4, 16}}, &resource);
  return squares[4] == 16;
#else
  return true;
#endif
}

}  // namespace

int main() {
  if (!heaps_serve_containers()) return 1;
  if (!refusals_reach_the_program()) return 2;
  if (!shelf_serves()) return 3;
  if (!messages_arrive()) return 4;
  if (!resources_serve()) return 5;
  if (!arrays_of_arrays_are_made_and_end()) return 6;
  std::puts("consumer ok");
}
