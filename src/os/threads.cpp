#include "os/threads.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include "os/errors.h"
#include "os/table_entry.h"

extern "C" {
[[gnu::weak]] extern char __libc_single_threaded;
[[gnu::weak]] void _dl_mcount(...);  // the loader's: not in static executables
}

namespace strata::os {
#ifdef __GLIBC__
namespace {

/// Whether an address lies in the C library or its loader. In a static executable all do.
bool lies_in_c_library(const void* address) noexcept {
  const void* const file = find_file(address);
  return file == find_file(reinterpret_cast<const void*>(&gnu_get_libc_version)) ||
         file == find_file(reinterpret_cast<const void*>(&_dl_mcount));
}

}  // namespace
#endif

bool is_single_threaded() noexcept {
  const char* const note = single_threaded_note();
  return note != nullptr && *note != 0;
}

const char* single_threaded_note() noexcept { return &__libc_single_threaded; }

std::uint32_t thread_id() noexcept { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

bool barrier_in_all_threads() noexcept {
  const SavedErrno saved;
  bool done = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  if (!done && errno == EPERM) {  // the first time: the process has to say that it is interested
    done = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  }
  return done;
}

bool may_start_thread([[maybe_unused]] const void* caller) noexcept {
#ifdef __GLIBC__
  if (is_single_threaded()) return true;
  return can_find_table_entries() && !lies_in_c_library(caller);
#else
  return true;
#endif
}

bool is_c_library([[maybe_unused]] const void* caller) noexcept {
#ifdef __GLIBC__
  const bool is_static = &_dl_mcount == nullptr;
  return caller != nullptr && !is_static && can_find_table_entries() && lies_in_c_library(caller);
#else
  return false;
#endif
}

bool create_thread_key(unsigned& key, void (*on_exit)(void*)) noexcept {
  static_assert(sizeof(pthread_key_t) == sizeof key, "a key of the C library is an unsigned");
  return pthread_key_create(&key, on_exit) == 0;
}

bool set_thread_value(unsigned key, void* value) noexcept {
  return pthread_setspecific(key, value) == 0;
}

}  // namespace strata::os
