#pragma once

#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <utility>

/// \file  The limit of heap_scenarios_bench: what a load costs when the allocator does next to
///        nothing.

namespace strata {

/// Free lists by size, 4 per power of two, over memory that is only ever taken; of one thread.
class Limit {
 public:
  static void* allocate(std::size_t bytes) {
    Lists& lists = of_this_thread();
    const std::size_t list = list_of(bytes);
    if (Link* head = lists.heads[list]) {
      lists.heads[list] = head->next;
      return head;
    }
    void* block = lists.fresh;
    lists.fresh += (((list % 4) + 5) << (list / 4)) / 4;
    return lists.fresh <= lists.end ? block : nullptr;
  }
  static void deallocate(void* block, std::size_t bytes) {
    Lists& lists = of_this_thread();
    auto* link = static_cast<Link*>(block);
    link->next = std::exchange(lists.heads[list_of(bytes)], link);
  }

 private:
  struct Link {
    Link* next;
  };
  struct Lists {
    static constexpr std::size_t kBytes = std::size_t{64} << 20;
    Lists()
        : fresh(static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
          end(fresh + kBytes) {}
    ~Lists() { munmap(end - kBytes, kBytes); }
    Lists(const Lists&) = delete;
    Lists& operator=(const Lists&) = delete;
    Link* heads[4 * 32] = {};
    char* fresh;
    char* end;
  };
  static Lists& of_this_thread() {
    static thread_local Lists lists;
    return lists;
  }
  /// Blocks of list 4 * p + q have 2^p * (5 + q) / 4 bytes, the next size that is not below.
  static std::size_t list_of(std::size_t bytes) {
    const std::size_t power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
    return 4 * power + ((bytes - 1) >> (power - 2)) % 4;
  }
};

}  // namespace strata
