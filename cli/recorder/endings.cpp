// Ends of a process that are no exit(), and of libraries: what was noted so far is written before.

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include "recorder/calls.h"

using strata::recorder::g_recording;

namespace {

template <typename Function>
Function next_of(Function, const char* name) noexcept {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// How many libraries were unloaded since the start.
unsigned long long unloads() noexcept {
  unsigned long long count = 0;
  const auto take = [](dl_phdr_info* library, std::size_t, void* out) {
    *static_cast<unsigned long long*>(out) = library->dlpi_subs;
    return 1;
  };
  dl_iterate_phdr(take, &count);
  return count;
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

/// What stacks of a library are called can be seen as long as it is there.
STRATA_NAME int dlclose(void* library) {
  const unsigned long long before = unloads();
  g_recording.name_stacks();
  const int result = next_of(&dlclose, "dlclose")(library);
  if (unloads() != before) g_recording.stacks().begin_anew();
  return result;
}
