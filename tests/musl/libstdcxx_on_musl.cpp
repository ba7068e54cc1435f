// Debian's libstdc++.a and libgcc_eh.a are made for glibc; these are the functions that they take
// from it and musl does not have. So a C++ program can be linked with musl from Debian's packages
// alone. A system whose C library is musl needs nothing of this.
#include <link.h>
#include <pthread.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" {

char __libc_single_threaded = 0;  // never: every count of references is atomic

std::uint32_t arc4random() {
  std::uint32_t number = 0;
  return getrandom(&number, sizeof(number), 0) == sizeof(number) ? number : 0;
}

// GCC 14's is made for a newer glibc, whose strtoul() also knows C23's prefix 0b.
unsigned long __isoc23_strtoul(const char* text, char** end, int base) {
  return std::strtoul(text, end, base);
}

// The unwinder asks in which object an address of code lies, and where its unwind tables are.
struct dl_find_object {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};

}  // extern "C"

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

int look_into(dl_phdr_info* info, std::size_t, void* argument) {
  const auto* search = static_cast<Search*>(argument);
  bool is_inside = false;
  std::uintptr_t tables = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    const std::uintptr_t start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search->address - start < header.p_memsz) {
      is_inside = true;
      search->found->map_start = reinterpret_cast<void*>(start);
      search->found->map_end = reinterpret_cast<void*>(start + header.p_memsz);
    }
    if (header.p_type == PT_GNU_EH_FRAME) tables = start;
  }
  if (!is_inside || tables == 0) return 0;
  search->found->eh_frame = reinterpret_cast<void*>(tables);
  return 1;
}

}  // namespace

extern "C" int _dl_find_object(void* address, dl_find_object* found) {
  Search search{reinterpret_cast<std::uintptr_t>(address), found};
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}

namespace {

// The destructors of the thread_local objects of a thread, the last one first.
struct Ending {
  void (*destroy)(void*);
  void* object;
  Ending* next;
};

pthread_key_t endings_key;
pthread_once_t endings_once = PTHREAD_ONCE_INIT;

void end_thread(void* list) {
  for (auto* ending = static_cast<Ending*>(list); ending != nullptr;) {
    ending->destroy(ending->object);
    Ending* next = ending->next;
    std::free(ending);
    ending = next;
  }
}

}  // namespace

extern "C" int __cxa_thread_atexit(void (*destroy)(void*), void* object, void*) {
  pthread_once(&endings_once, [] {
    pthread_key_create(&endings_key, end_thread);
    std::atexit([] { end_thread(pthread_getspecific(endings_key)); });
  });
  auto* ending = static_cast<Ending*>(std::malloc(sizeof(Ending)));
  if (ending == nullptr) std::abort();
  *ending = {destroy, object, static_cast<Ending*>(pthread_getspecific(endings_key))};
  return pthread_setspecific(endings_key, ending);
}
