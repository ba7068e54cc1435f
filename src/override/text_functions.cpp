// What the compiler calls for texts, in the shared library alone: the C library's would have to be
// looked up at the start of every program, and no text here is long.

#include <cstddef>

namespace strata {
namespace {

/// Keeps the compiler from making a call of what a loop does.
template <typename Pointer>
[[gnu::always_inline]] inline Pointer opaque(Pointer at) noexcept {
  asm("" : "+r"(at));
  return at;
}

}  // namespace

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
