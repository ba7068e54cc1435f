// Misuses the malloc once: misuse <case> [at-once]. The allocator can see each misuse, at the
// latest when free objects go back to their spans; then the program must not reach its end.

#include "misuse/misuse.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>
#include <thread>

#include "support/check.h"

namespace {

/// Returns everything in this thread's cache to its span, which verifies it. A run that asks for
/// "at-once" must not come so far.
bool g_at_once = false;
void return_all() {
  CHECK(!g_at_once, "the misuse was not seen at once");
  malloc_trim(0);
}

void double_free() {
  char* p = get(100);
  free(p);
  free(opaque(p));
}

void double_free_with_others_between() {
  char* p = get(100);
  char* q = get(100);
  static_cast<void>(get(100));  // keeps the span
  free(p);
  free(q);
  free(opaque(p));
  return_all();
}

/// Both copies are in the thread's cache when the process ends.
void double_free_found_at_exit() {
  char* p = get(100);
  char* q = get(100);
  static_cast<void>(get(100));  // keeps the span
  free(p);
  free(q);
  free(opaque(p));
  CHECK(!g_at_once, "the misuse was not seen at once");
  exit(0);
}

/// The first copy has left the thread's cache and is on its way to other threads, not in its span.
void double_free_on_its_way_at_exit() {
  char* blocks[1000];
  for (char*& block : blocks) block = get(100);
  for (std::size_t i = 0; i < std::size(blocks); ++i) {
    if (i % 8 != 0) free(blocks[i]);
  }
  free(opaque(blocks[50]));
  CHECK(!g_at_once, "the misuse was not seen at once");
  exit(0);
}

/// One copy is in the cache of a thread that has ended.
void double_free_by_an_ended_thread_at_exit() {
  char* p = get(100);
  static_cast<void>(get(100));  // keeps the span
  std::thread([p] { free(p); }).join();
  free(opaque(p));
  CHECK(!g_at_once, "the misuse was not seen at once");
  exit(0);
}

/// When one copy reaches the span, it is the last object, and the span goes. Then comes the other
/// copy.
void double_free_of_a_spans_last_object() {
  static std::atomic<char*> handed_over{nullptr};
  std::thread other([] {
    while (handed_over == nullptr) std::this_thread::yield();
    free(opaque(handed_over.load()));
    return_all();
  });
  char* p = get(5000);
  malloc_trim(0);  // the span's other objects are back
  free(p);         // stays in this thread's cache
  handed_over = p;
  other.join();
  return_all();
}

/// Between the two frees, the first copy leaves the thread's cache.
void double_free_far_apart() {
  static char* blocks[3000];
  for (auto& block : blocks) {
    block = get(64);
    if ((&block - blocks) % 100 == 0) static_cast<void>(get(64));  // keeps its span
  }
  for (char* block : blocks) free(block);
  free(opaque(blocks[0]));
  return_all();
}

void double_free_after_return() {
  char* p = get(100);
  static_cast<void>(get(100));
  free(p);
  if (!g_at_once) return_all();
  free(opaque(p));
  return_all();
}

void double_free_after_the_span_is_gone() {
  char* p = get(100'000);
  free(p);
  if (!g_at_once) return_all();
  free(opaque(p));
  return_all();
}

void double_free_from_another_thread() {
  static std::atomic<char*> handed_over{nullptr};
  std::thread other([] {
    while (handed_over == nullptr) std::this_thread::yield();
    free(opaque(handed_over.load()));
    return_all();
  });
  char* p = get(100);
  static_cast<void>(get(100));
  free(p);
  if (!g_at_once) return_all();
  handed_over = p;
  other.join();
}

/// A thread that is to be cancelled must be able to say its sentence first.
void double_free_by_a_cancelled_thread() {
  std::thread([] {
    char* p = get(100);
    free(p);
    pthread_cancel(pthread_self());
    free(opaque(p));
  }).join();
}

void double_free_of_large() {
  char* p = get(kLarge);
  free(p);
  free(opaque(p));
}

void double_free_of_huge() {
  char* p = get(kHuge);
  free(p);
  free(opaque(p));
}

void double_delete() {
  int* p = opaque(new int(7));
  delete p;
  ::operator delete(opaque(p), sizeof(int));
}

void double_free_of_aligned() {
  void* p = opaque(aligned_alloc(4096, 100));
  free(p);
  free(opaque(p));
}

/// Before there is a heap, blocks lie one behind the other.
void overflow_into_the_next_block() {
  char* p = get(100);
  char* q = get(100);
  memset(opaque(p), 'x', 130);
  free(q);
}

/// The word before this block is its size.
void underflow_by_one_of_first() {
  char* p = get(100);
  opaque(p)[-1] = '/';
  free(p);
}
void realloc_after_an_underflow() {
  char* p = get(100);
  opaque(p)[-8] = 127;
  free(realloc(p, 110));
}

void stack_pointer() {
  alignas(16) char on_the_stack[64];
  free(get(10));
  free(opaque(&on_the_stack[0]));
}

void static_pointer() {
  alignas(16) static char in_static_storage[64] = "of the program's file";
  free(get(10));
  free(opaque(&in_static_storage[0]));
}

void mapped_pointer() {
  free(get(10));
  free(opaque(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
}

void wild(std::uintptr_t address) {
  free(get(10));
  free(opaque(reinterpret_cast<void*>(address)));
}
void wild_pointer_low() { wild(16); }
void wild_pointer_high() { wild(0x7fff'ffff'fff0); }
void wild_pointer_not_canonical() { wild(0xdead'beef'dead'bee0); }
void wild_pointer_highest() { wild(~std::uintptr_t{15}); }

void misaligned_small() { free(opaque(get(100) + 1)); }
void misaligned_by_eight() { free(opaque(get(100) + 8)); }
void misaligned_large() { free(opaque(get(kLarge) + 8)); }
void misaligned_huge() { free(opaque(get(kHuge) + 8)); }

void interior_small() {
  char* p = get(100);
  free(opaque(p + 16));
  return_all();
}

void interior_small_in_another_page() {
  char* p = get(120'000);
  free(opaque(p + 65'536));
  return_all();
}

void interior_large() { free(opaque(get(kLarge) + 65'536)); }
void interior_huge() { free(opaque(get(kHuge) + 65'536)); }

void beyond_a_large_block() {
  char* p = get(kLarge);
  free(opaque(p + malloc_usable_size(p)));
}

void realloc_of_freed_large() {
  char* p = get(kLarge);
  free(p);
  free(realloc(opaque(p), 400'000));
}
void realloc_of_freed_huge() {
  char* p = get(kHuge);
  free(p);
  free(realloc(opaque(p), 2 * kHuge));
}
void realloc_of_stack_pointer() {
  alignas(16) char on_the_stack[64] = {};
  free(get(10));
  free(realloc(opaque(&on_the_stack[0]), 100));
}
void realloc_of_misaligned() { free(realloc(opaque(get(100) + 1), 200)); }
void realloc_of_interior_large() { free(realloc(opaque(get(kLarge) + 65'536), 400'000)); }
void realloc_of_interior_small() {
  free(realloc(opaque(get(100) + 16), 1000));
  return_all();
}
void realloc_in_place_of_interior_small() {
  free(realloc(opaque(get(100) + 16), 90));
  return_all();
}

void usable_size_of_stack_pointer() {
  alignas(16) char on_the_stack[64] = {};
  free(get(10));
  printf("%zu\n", malloc_usable_size(opaque(&on_the_stack[0])));
}
void usable_size_of_freed_large() {
  char* p = get(kLarge);
  free(p);
  printf("%zu\n", malloc_usable_size(opaque(p)));
}
void usable_size_of_interior_small() { printf("%zu\n", malloc_usable_size(opaque(get(100) + 16))); }
void usable_size_of_misaligned() { printf("%zu\n", malloc_usable_size(opaque(get(100) + 1))); }

constexpr Case kCases[] = {
    CASE(double_free),
    CASE(double_free_with_others_between),
    CASE(double_free_found_at_exit),
    CASE(double_free_on_its_way_at_exit),
    CASE(double_free_by_an_ended_thread_at_exit),
    CASE(double_free_of_a_spans_last_object),
    CASE(double_free_far_apart),
    CASE(double_free_after_return),
    CASE(double_free_after_the_span_is_gone),
    CASE(double_free_from_another_thread),
    CASE(double_free_by_a_cancelled_thread),
    CASE(double_free_of_large),
    CASE(double_free_of_huge),
    CASE(double_delete),
    CASE(double_free_of_aligned),
    CASE(overflow_into_the_next_block),
    CASE(underflow_by_one_of_first),
    CASE(realloc_after_an_underflow),
    CASE(stack_pointer),
    CASE(static_pointer),
    CASE(mapped_pointer),
    CASE(wild_pointer_low),
    CASE(wild_pointer_high),
    CASE(wild_pointer_not_canonical),
    CASE(wild_pointer_highest),
    CASE(misaligned_small),
    CASE(misaligned_by_eight),
    CASE(misaligned_large),
    CASE(misaligned_huge),
    CASE(interior_small),
    CASE(interior_small_in_another_page),
    CASE(interior_large),
    CASE(interior_huge),
    CASE(beyond_a_large_block),
    CASE(realloc_of_freed_large),
    CASE(realloc_of_freed_huge),
    CASE(realloc_of_stack_pointer),
    CASE(realloc_of_misaligned),
    CASE(realloc_of_interior_large),
    CASE(realloc_of_interior_small),
    CASE(realloc_in_place_of_interior_small),
    CASE(usable_size_of_stack_pointer),
    CASE(usable_size_of_freed_large),
    CASE(usable_size_of_misaligned),
    CASE(usable_size_of_interior_small),
};

bool run_case(const char* name) {
  for (const Case& entry : kCases) {
    if (std::strcmp(name, entry.name) == 0) return entry.run(), true;
  }
  return run_checked_case(name);
}

}  // namespace

int main(int argc, char** argv) {
  g_at_once = argc > 2 && std::strcmp(argv[2], "at-once") == 0;
  if (argc > 1 && run_case(argv[1])) {
    fprintf(stderr, "nothing was noticed\n");
    return 0;
  }
  fprintf(stderr, "usage: misuse <case> [at-once], where the case is one of\n");
  for (const Case& entry : kCases) fprintf(stderr, "  %s\n", entry.name);
  list_checked_cases();
  return 2;
}
