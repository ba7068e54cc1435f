// Functions that end a process without exit(), or unload a library. Each flushes the recording
// first.

#include <alloca.h>
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdarg>

#include "recorder/calls.h"

using strata::recorder::g_recording;

namespace {

template <typename Function>
Function next_of(Function, const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// The number of libraries unloaded so far.
unsigned long long unloads() noexcept {
  unsigned long long count = 0;
  const auto take = [](dl_phdr_info* library, std::size_t, void* out) {
    *static_cast<unsigned long long*>(out) = library->dlpi_subs;
    return 1;
  };
  dl_iterate_phdr(take, &count);
  return count;
}

/// Collects variadic arguments, up to a null pointer, into an array.
/// \param become  gets the array, and the arguments after the null pointer
template <typename Become>
int become_with(const char* first, std::va_list rest, Become become) noexcept {
  std::va_list counted;
  va_copy(counted, rest);
  std::size_t count = 1;
  for (const char* at = first; at != nullptr; ++count) at = va_arg(counted, const char*);
  va_end(counted);
  auto** const list = static_cast<char**>(alloca(count * sizeof(char*)));
  list[0] = const_cast<char*>(first);
  for (std::size_t i = 1; i < count; ++i) list[i] = va_arg(rest, char*);
  return become(list, rest);
}

[[noreturn]] void end_with(const char* name, int status) noexcept {
  g_recording.end();
  next_of(&_exit, name)(status);
  __builtin_unreachable();
}

}  // namespace

STRATA_NAME void _exit(int status) { end_with("_exit", status); }
STRATA_NAME void _Exit(int status) { end_with("_Exit", status); }

STRATA_NAME int execve(const char* path, char* const arguments[], char* const environment[]) {
  g_recording.flush();
  return next_of(&execve, "execve")(path, arguments, environment);
}
STRATA_NAME int execv(const char* path, char* const arguments[]) {
  g_recording.flush();
  return next_of(&execv, "execv")(path, arguments);
}
STRATA_NAME int execvp(const char* file, char* const arguments[]) {
  g_recording.flush();
  return next_of(&execvp, "execvp")(file, arguments);
}
STRATA_NAME int execvpe(const char* file, char* const arguments[], char* const environment[]) {
  g_recording.flush();
  return next_of(&execvpe, "execvpe")(file, arguments, environment);
}
STRATA_NAME int fexecve(int file, char* const arguments[], char* const environment[]) {
  g_recording.flush();
  return next_of(&fexecve, "fexecve")(file, arguments, environment);
}

STRATA_NAME int execveat(int folder, const char* path, char* const arguments[],
                         char* const environment[], int flags) {
  g_recording.flush();
  return next_of(&execveat, "execveat")(folder, path, arguments, environment, flags);
}

// The C library's versions do not call execv and the like through the dynamic linker.
STRATA_NAME int execl(const char* path, const char* first, ...) {
  std::va_list rest;
  va_start(rest, first);
  const int result = become_with(
      first, rest, [&](char** arguments, std::va_list) { return execv(path, arguments); });
  va_end(rest);
  return result;
}
STRATA_NAME int execlp(const char* file, const char* first, ...) {
  std::va_list rest;
  va_start(rest, first);
  const int result = become_with(
      first, rest, [&](char** arguments, std::va_list) { return execvp(file, arguments); });
  va_end(rest);
  return result;
}
STRATA_NAME int execle(const char* path, const char* first, ...) {
  std::va_list rest;
  va_start(rest, first);
  const int result = become_with(first, rest, [&](char** arguments, std::va_list environment) {
    return execve(path, arguments, va_arg(environment, char**));
  });
  va_end(rest);
  return result;
}

/// Flushes first: the parent ends inside the C library.
STRATA_NAME int daemon(int keeps_folder, int keeps_files) {
  g_recording.flush();
  return next_of(&daemon, "daemon")(keeps_folder, keeps_files);
}

/// Names a library's stacks first: its mapping can be read only while it is loaded.
STRATA_NAME int dlclose(void* library) {
  const unsigned long long before = unloads();
  g_recording.name_stacks();
  const int result = next_of(&dlclose, "dlclose")(library);
  if (unloads() != before) g_recording.stacks().begin_anew();
  return result;
}
