// Misuse that the malloc notices when it is told to look for it: by full checks, or by guard pages.

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "misuse/misuse.h"
#include "support/check.h"

extern "C" [[gnu::weak]] void free_sized(void*, std::size_t) noexcept;
extern "C" [[gnu::weak]] void strata_free_sized(void*, std::size_t) noexcept;
extern "C" [[gnu::weak]] void free_aligned_sized(void*, std::size_t, std::size_t) noexcept;

namespace {

void write_to(char* p) { *const_cast<volatile char*>(p) = 1; }
void read_from(const char* p) { static_cast<void>(*const_cast<const volatile char*>(p)); }

// --- use after free ----------------------------------------------------------------------------

void read_after_free() {
  char* p = get(100);
  free(p);
  read_from(opaque(p) + 5);
}

/// Gets an object that is guarded although nobody asked for it. Such an object has not a byte more
/// than requested, while others have all of their class. Of the objects that come from spans, one
/// in 131,072 leads to a guarded one.
char* get_guarded_by_chance(std::size_t bytes) {
  std::vector<char*> batch(10'000);
  for (int round = 0; round < 1000; ++round) {
    for (char*& p : batch) p = get(bytes);
    for (char* p : batch) {
      if (malloc_usable_size(p) == bytes) return p;
    }
    for (char* p : batch) free(p);
  }
  return nullptr;
}

void read_after_free_by_chance() {
  char* p = get_guarded_by_chance(100);
  free(p);
  read_from(opaque(p) + 5);
}

void write_after_free_in_a_thread_by_chance() {
  char* p = get_guarded_by_chance(100);
  std::thread([p] { free(opaque(p)); }).join();
  write_to(opaque(p));
}

void overflow_by_chance() {
  for (;;) {
    char* p = get_guarded_by_chance(272);
    // A guarded object lies at the end of its slot, or at its start.
    if (reinterpret_cast<std::uintptr_t>(p + 272) % 4096 == 0) write_to(opaque(p) + 272);
    free(p);
  }
}

void double_free_by_chance() {
  char* p = get_guarded_by_chance(100);
  free(p);
  free(opaque(p));
}

void write_after_free() {
  char* p = get(100);
  free(p);
  write_to(opaque(p) + 5);
  malloc_trim(0);  // what waits is verified
}

/// Nobody frees or returns the object: it is verified when it is used again.
void write_after_free_found_by_use() {
  char* p = get(100);
  free(p);
  write_to(opaque(p) + 99);
  for (int i = 0; i < 10'000; ++i) free(get(100));
}

void write_after_realloc() {
  char* p = get(100);
  char* moved = static_cast<char*>(realloc(p, 101));
  write_to(opaque(p));
  free(moved);
  malloc_trim(0);
}

void read_after_free_by_another_thread() {
  char* p = get(100);
  std::thread([p] { free(opaque(p)); }).join();
  read_from(opaque(p));
}

void write_after_free_of_huge() {
  char* p = get(kHuge);
  free(p);
  write_to(opaque(p) + 5);
}

void write_after_free_of_large() {
  char* p = get(kLarge);
  free(p);
  write_to(opaque(p) + 5);
}
void underflow_of_large() { write_to(opaque(get(kLarge)) - 1); }
void write_far_beyond_large() { write_to(opaque(get(kLarge)) + kLarge + 1'000'000); }

void realloc_of_freed() {
  char* p = get(100);
  free(p);
  free(realloc(opaque(p), 200));
}

void usable_size_of_freed() {
  char* p = get(100);
  free(p);
  printf("%zu\n", malloc_usable_size(opaque(p)));
}

// --- overflow and underflow --------------------------------------------------------------------

void overflow_of(std::size_t bytes) {
  char* p = get(bytes);
  std::memset(p, 0, bytes);
  write_to(opaque(p) + bytes);
  free(p);
}

void overflow_by_one() { overflow_of(100); }
void overflow_of_a_full_class() { overflow_of(112); }
void overflow_of_nothing() { overflow_of(0); }
void read_beyond_nothing() { read_from(opaque(get(0)) + 15); }
void write_after_free_of_nothing() {
  char* p = get(0);
  free(p);
  write_to(opaque(p));
}
void double_free_of_nothing() {
  char* p = get(0);
  free(p);
  free(opaque(p));
}
void overflow_of_large() { overflow_of(kLarge); }
void overflow_of_a_later_large_block() {
  for (int i = 0; i < 100; ++i) get(kLarge);
  overflow_of(kLarge);
}
void overflow_of_huge() { overflow_of(kHuge); }

void overflow_seen_by_realloc() {
  char* p = get(100);
  write_to(opaque(p) + 100);
  free(realloc(p, 90));
}

/// The bytes behind this small object belong to no object yet.
void overflow_beyond_its_own_slack() {
  char* p = get(8);
  write_to(opaque(p) + 39);
  free(p);
}

void underflow_of_the_only_object() {
  char* p = get(5000);
  write_to(opaque(p) - 1);
  free(p);
}

// Blocks that nobody frees are verified at the end of the process.

void overflow_never_freed() {
  write_to(opaque(get(100)) + 100);
  exit(0);
}

void overflow_of_large_never_freed() {
  write_to(opaque(get(kLarge)) + kLarge);
  exit(0);
}

void underflow_never_freed() {
  write_to(opaque(get(5000)) - 3);
  exit(0);
}

void write_after_free_found_at_exit() {
  char* p = get(100);
  free(p);
  write_to(opaque(p) + 5);
  exit(0);
}

// --- the wrong other half -----------------------------------------------------------------------

void delete_of_an_array() { ::operator delete(opaque(::operator new[](100))); }
void array_delete_of_an_object() { ::operator delete[](opaque(::operator new(100))); }
void sized_delete_of_an_array() {
  ::operator delete (opaque(::operator new[](100)), std::size_t{100});
}
void aligned_delete_of_an_array() {
  ::operator delete (opaque(::operator new[](100, std::align_val_t{64})), std::align_val_t{64});
}
void free_of_new() { free(opaque(::operator new(100))); }
void delete_of_malloc() { ::operator delete(opaque(get(100))); }

/// The byte before an object can be verified if it belongs to another object.
void underflow_by_one() {
  static char* all[2000];
  for (char*& each : all) each = get(100);
  for (char* each : all) {
    for (char* other : all) {
      if (other + 128 != each) continue;
      write_to(opaque(each) - 1);
      free(each);
    }
  }
}

/// Of two guarded objects, one ends at its guard page and one begins at it.
void overflow_by_a_read() {
  for (int i = 0; i < 2; ++i) {
    char* p = get(128);
    if ((reinterpret_cast<std::uintptr_t>(p) + 128) % 4096 == 0) read_from(opaque(p) + 128);
  }
}

void underflow_by_a_read() {
  for (int i = 0; i < 2; ++i) {
    char* p = get(128);
    if (reinterpret_cast<std::uintptr_t>(p) % 4096 == 0) read_from(opaque(p) - 1);
  }
}

// --- mismatched deletes ------------------------------------------------------------------------

constexpr auto kAlign64 = std::align_val_t{64};
constexpr auto kAlign128 = std::align_val_t{128};

void sized_delete_smaller() { ::operator delete (opaque(::operator new(100)), std::size_t{99}); }
void sized_delete_larger() { ::operator delete (opaque(::operator new(100)), std::size_t{4000}); }
void sized_delete_of_another_class() {
  ::operator delete (opaque(::operator new(100)), std::size_t{96});
}
void aligned_delete_of_another_class() {
  ::operator delete (opaque(::operator new (100, std::align_val_t{512})), std::size_t{100},
                     kAlign64);
}
void sized_delete_of_large() { ::operator delete(opaque(::operator new(kLarge)), kLarge - 1); }
/// The C library may not have free_sized yet: then the linked or the preloaded malloc has it.
template <typename Function>
Function* find(Function* linked, const char* name) {
  if (linked == nullptr) linked = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  CHECK(linked != nullptr, "the function is missing");
  return linked;
}
void free_sized_wrong() { find(free_sized, "free_sized")(opaque(get(100)), 101); }
void free_sized_too_large() { find(free_sized, "free_sized")(opaque(get(100)), 113); }
void strata_free_sized_too_large() {
  find(strata_free_sized, "strata_free_sized")(opaque(get(100)), 113);
}
void free_aligned_sized_wrong() {
  find(free_aligned_sized, "free_aligned_sized")(opaque(aligned_alloc(64, 100)), 64, 104);
}
void aligned_delete_of_plain_new() { ::operator delete(opaque(::operator new(100)), kAlign64); }
void plain_delete_of_aligned_new() { ::operator delete(opaque(::operator new(100, kAlign64))); }
void plain_delete_of_new_aligned_to_eight() {
  ::operator delete(opaque(::operator new (100, std::align_val_t{8})));
}
void aligned_delete_with_another() {
  ::operator delete(opaque(::operator new(100, kAlign64)), kAlign128);
}

/// Forms that the cases above do not use.
void nothrow_new_of_an_object() { ::operator delete[](opaque(::operator new(100, std::nothrow))); }
void nothrow_new_of_an_array() { ::operator delete(opaque(::operator new[](100, std::nothrow))); }
void aligned_nothrow_new_of_an_object() {
  ::operator delete[](opaque(::operator new(100, kAlign64, std::nothrow)), kAlign64);
}
void aligned_nothrow_new_of_an_array() {
  ::operator delete(opaque(::operator new[](100, kAlign64, std::nothrow)), kAlign64);
}
void sized_array_delete_of_an_object() {
  ::operator delete[](opaque(::operator new(100)), std::size_t{100});
}
void nothrow_delete_of_an_array() {
  ::operator delete(opaque(::operator new[](100)), std::nothrow);
}
void nothrow_array_delete_of_an_object() {
  ::operator delete[](opaque(::operator new(100)), std::nothrow);
}
void aligned_array_delete_of_an_object() {
  ::operator delete[](opaque(::operator new(100, kAlign64)), kAlign64);
}
void sized_aligned_delete_of_an_array() {
  ::operator delete (opaque(::operator new[](100, kAlign64)), std::size_t{100}, kAlign64);
}
void sized_aligned_array_delete_of_an_object() {
  ::operator delete[](opaque(::operator new(100, kAlign64)), std::size_t{100}, kAlign64);
}
void aligned_nothrow_delete_of_an_array() {
  ::operator delete(opaque(::operator new[](100, kAlign64)), kAlign64, std::nothrow);
}
void aligned_nothrow_array_delete_of_an_object() {
  ::operator delete[](opaque(::operator new(100, kAlign64)), kAlign64, std::nothrow);
}
void sized_array_delete_smaller() {
  ::operator delete[](opaque(::operator new[](100)), std::size_t{99});
}
void sized_aligned_delete_smaller() {
  ::operator delete (opaque(::operator new(100, kAlign64)), std::size_t{99}, kAlign64);
}
void sized_aligned_array_delete_smaller() {
  ::operator delete[](opaque(::operator new[](100, kAlign64)), std::size_t{99}, kAlign64);
}
void aligned_array_delete_with_another() {
  ::operator delete[](opaque(::operator new[](100, kAlign64)), kAlign128);
}
void sized_aligned_delete_with_another() {
  ::operator delete (opaque(::operator new(100, kAlign64)), std::size_t{100}, kAlign128);
}
void sized_aligned_array_delete_with_another() {
  ::operator delete[](opaque(::operator new[](100, kAlign64)), std::size_t{100}, kAlign128);
}
void aligned_nothrow_delete_with_another() {
  ::operator delete(opaque(::operator new(100, kAlign64)), kAlign128, std::nothrow);
}
void aligned_nothrow_array_delete_with_another() {
  ::operator delete[](opaque(::operator new[](100, kAlign64)), kAlign128, std::nothrow);
}

constexpr Case kCases[] = {
    CASE(read_after_free),
    CASE(read_after_free_by_chance),
    CASE(write_after_free_in_a_thread_by_chance),
    CASE(overflow_by_chance),
    CASE(double_free_by_chance),
    CASE(write_after_free),
    CASE(write_after_free_found_by_use),
    CASE(write_after_realloc),
    CASE(read_after_free_by_another_thread),
    CASE(write_after_free_of_huge),
    CASE(write_after_free_of_large),
    CASE(underflow_of_large),
    CASE(write_far_beyond_large),
    CASE(overflow_of_a_later_large_block),
    CASE(realloc_of_freed),
    CASE(usable_size_of_freed),
    CASE(overflow_by_one),
    CASE(overflow_of_a_full_class),
    CASE(overflow_of_nothing),
    CASE(read_beyond_nothing),
    CASE(write_after_free_of_nothing),
    CASE(double_free_of_nothing),
    CASE(overflow_of_large),
    CASE(overflow_of_huge),
    CASE(overflow_seen_by_realloc),
    CASE(overflow_beyond_its_own_slack),
    CASE(underflow_of_the_only_object),
    CASE(overflow_never_freed),
    CASE(overflow_of_large_never_freed),
    CASE(underflow_never_freed),
    CASE(write_after_free_found_at_exit),
    CASE(delete_of_an_array),
    CASE(array_delete_of_an_object),
    CASE(sized_delete_of_an_array),
    CASE(aligned_delete_of_an_array),
    CASE(free_of_new),
    CASE(delete_of_malloc),
    CASE(underflow_by_one),
    CASE(overflow_by_a_read),
    CASE(underflow_by_a_read),
    CASE(sized_delete_smaller),
    CASE(sized_delete_larger),
    CASE(sized_delete_of_another_class),
    CASE(aligned_delete_of_another_class),
    CASE(sized_delete_of_large),
    CASE(free_sized_wrong),
    CASE(free_sized_too_large),
    CASE(strata_free_sized_too_large),
    CASE(free_aligned_sized_wrong),
    CASE(aligned_delete_of_plain_new),
    CASE(plain_delete_of_aligned_new),
    CASE(plain_delete_of_new_aligned_to_eight),
    CASE(aligned_delete_with_another),
    CASE(nothrow_new_of_an_object),
    CASE(nothrow_new_of_an_array),
    CASE(aligned_nothrow_new_of_an_object),
    CASE(aligned_nothrow_new_of_an_array),
    CASE(sized_array_delete_of_an_object),
    CASE(nothrow_delete_of_an_array),
    CASE(nothrow_array_delete_of_an_object),
    CASE(aligned_array_delete_of_an_object),
    CASE(sized_aligned_delete_of_an_array),
    CASE(sized_aligned_array_delete_of_an_object),
    CASE(aligned_nothrow_delete_of_an_array),
    CASE(aligned_nothrow_array_delete_of_an_object),
    CASE(sized_array_delete_smaller),
    CASE(sized_aligned_delete_smaller),
    CASE(sized_aligned_array_delete_smaller),
    CASE(aligned_array_delete_with_another),
    CASE(sized_aligned_delete_with_another),
    CASE(sized_aligned_array_delete_with_another),
    CASE(aligned_nothrow_delete_with_another),
    CASE(aligned_nothrow_array_delete_with_another),
};

}  // namespace

bool run_checked_case(const char* name) {
  for (const Case& entry : kCases) {
    if (std::strcmp(name, entry.name) == 0) return entry.run(), true;
  }
  return false;
}

void list_checked_cases() {
  for (const Case& entry : kCases) fprintf(stderr, "  %s\n", entry.name);
}
