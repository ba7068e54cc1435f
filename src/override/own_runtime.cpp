// The parts of the compiler's start files that this library needs, and the string functions that
// the compiler calls, in the shared library only. Those of the start files and the C library would
// have to be looked up at the start of every program. No string here is long.

#include <cstddef>

namespace strata {
namespace {

/// Keeps the compiler from turning a loop into a call.
template <typename Pointer>
[[gnu::always_inline]] inline Pointer opaque(Pointer at) noexcept {
  asm("" : "+r"(at));
  return at;
}

}  // namespace

/// The handle by which the C library's part of this file (atexit) knows the file.
/// The file stays loaded, so what it registers is the process's.
extern "C" void* const __dso_handle;
[[gnu::used]] void* const __dso_handle = nullptr;

// Hidden, as everything here that says nothing else: each file keeps its own.
std::size_t length_of(const char* text) noexcept asm("strlen");
void* find_byte(const void* bytes, int wanted, std::size_t count) noexcept asm("memchr");

[[gnu::used]] std::size_t length_of(const char* text) noexcept {
  const char* end = text;
  while (*end != '\0') end = opaque(end + 1);
  return static_cast<std::size_t>(end - text);
}

[[gnu::used]] void* find_byte(const void* bytes, int wanted, std::size_t count) noexcept {
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (; count != 0; --count, at = opaque(at + 1)) {
    if (*at == static_cast<unsigned char>(wanted)) return const_cast<unsigned char*>(at);
  }
  return nullptr;
}

}  // namespace strata
