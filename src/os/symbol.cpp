#include "os/symbol.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <string_view>

extern "C" {
[[gnu::weak]] void __asan_init();
// The linker's symbols: where the file with this code begins, and where its code ends.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char etext[];
}

namespace strata::os {
namespace {

bool is_here(const char* address) noexcept { return address >= __ehdr_start && address < etext; }

#ifdef __GLIBC__
/// Reads the path of the program's file from /proc.
/// \returns  false if it says nothing, or that the file is gone
bool read_program_file(char* path, std::size_t capacity) noexcept {
  const ssize_t size = readlinkat(AT_FDCWD, "/proc/self/exe", path, capacity);
  if (size <= 0 || static_cast<std::size_t>(size) == capacity) return false;
  path[size] = '\0';
  return !std::string_view(path).ends_with(" (deleted)");
}

/// The program's own file; or `otherwise`, if /proc does not tell, or if the process was started
/// through the loader, whose file /proc has then.
const char* program_file(const char* otherwise) noexcept {
  enum class State : char { kUnread, kReading, kRead, kUnknown };
  static constinit char path[4096] = {};
  // release after the path is written, acquire before it is used
  static constinit std::atomic<State> state{State::kUnread};
  if (getauxval(AT_BASE) == 0) return otherwise;
  State seen = state.load(std::memory_order_acquire);
  if (seen == State::kUnread &&
      state.compare_exchange_strong(seen, State::kReading, std::memory_order_relaxed)) {
    seen = read_program_file(path, sizeof path) ? State::kRead : State::kUnknown;
    state.store(seen, std::memory_order_release);
  }
  return seen == State::kRead ? path : otherwise;
}

/// Finds an address's file. The loader knows the program only by argv[0], which a daemon overwrites
/// with its title. And it gives the start of a file, which addresses count from only if they are
/// not fixed.
bool find_file_and_zero(const void* address, Dl_info& info, std::uintptr_t& zero) noexcept {
  link_map* file = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&file), RTLD_DL_LINKMAP) == 0) return false;
  if (file->l_name[0] == '\0') info.dli_fname = program_file(info.dli_fname);
  zero = file->l_addr;
  return info.dli_fname != nullptr;
}
#else
bool find_file_and_zero(const void* address, Dl_info& info, std::uintptr_t& zero) noexcept {
  if (dladdr(address, &info) == 0) return false;
  zero = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  return info.dli_fname != nullptr;
}
#endif

/// dlopen; nullptr also if there is none. Looked up, since the linker of a static program warns of
/// every file that names it.
void* open_library(const char* file, int flags) noexcept {
  const auto open = reinterpret_cast<OpenLibrary>(find_function("dlopen"));
  return open != nullptr ? open(file, flags) : nullptr;
}

}  // namespace

bool find_code(const void* address, CodePlace& out) noexcept {
  Dl_info info;
  std::uintptr_t zero;
  if (!find_file_and_zero(address, info, zero)) return false;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  out.module = info.dli_fname;
  out.offset = at - zero;
  out.function = info.dli_sname;
  out.function_offset =
      info.dli_sname != nullptr ? at - reinterpret_cast<std::uintptr_t>(info.dli_saddr) : 0;
  return true;
}

bool has_shadow_at_low_addresses() noexcept { return __asan_init != nullptr; }

bool is_part_of_the_program() noexcept {
  return is_here(reinterpret_cast<const char*>(getauxval(AT_PHDR)));
}

bool is_malloc_of_another_file() noexcept {
  if (is_part_of_the_program()) return false;
  const void* const found = dlsym(RTLD_DEFAULT, "malloc");
  return found != nullptr && !is_here(static_cast<const char*>(found));
}

void* find_function(const char* name) noexcept { return dlsym(RTLD_DEFAULT, name); }

[[gnu::cold]] void* find_function_of(const char* library, const char* name) noexcept {
  void* const loaded = open_library(library, RTLD_NOW | RTLD_NOLOAD);
  return loaded != nullptr ? dlsym(loaded, name) : nullptr;
}

void stay_loaded() noexcept {
  Dl_info info;
  if (is_part_of_the_program() || dladdr(__ehdr_start, &info) == 0) return;
  open_library(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

OpenLibrary next_open_library() noexcept {
  return reinterpret_cast<OpenLibrary>(dlsym(RTLD_NEXT, "dlopen"));
}

RegisterForkHandlers next_register_fork_handlers() noexcept {
  return reinterpret_cast<RegisterForkHandlers>(dlsym(RTLD_NEXT, "__register_atfork"));
}

int without_deep_binding(int flags) noexcept {
#ifdef RTLD_DEEPBIND
  return flags & ~RTLD_DEEPBIND;
#else
  return flags;
#endif
}

}  // namespace strata::os
