#pragma once

#include <cstddef>
#include <cstring>

#include "base/text_writer.h"

/// \file  The patterns that fill checked memory so that changes show, and how changes are reported.

namespace strata {

// Chosen: no small number, no text, as a pointer in no program's address space, and different from
// each other.
inline constexpr unsigned char kFreedByte = 0xdf;
inline constexpr unsigned char kSlackByte = 0xb5;  ///< after what the program asked for

/// The offset of the first byte that is not `value`; `bytes` if all are.
inline std::size_t find_change(const char* at, std::size_t bytes, unsigned char value) noexcept {
  // Every byte equals its neighbour: the C library compares faster than a loop.
  if (bytes == 0 ||
      (static_cast<unsigned char>(at[0]) == value && std::memcmp(at, at + 1, bytes - 1) == 0)) {
    return bytes;
  }
  std::size_t offset = 0;
  while (static_cast<unsigned char>(at[offset]) == value) ++offset;
  return offset;
}

/// Writes "<mistake> of <object>: the program <verb> at offset <offset> of this object of <bytes>
/// bytes".
void say_access(TextWriter& sentence, const char* mistake, const void* object, std::size_t bytes,
                const char* verb, std::ptrdiff_t offset) noexcept;
/// Dies with such a sentence about a write.
[[noreturn]] void die_of_write(const char* mistake, const void* object, std::size_t bytes,
                               std::ptrdiff_t offset) noexcept;

/// Dies if one of the `slack` bytes after the `bytes` that the program asked for has changed.
inline void verify_slack(const char* object, std::size_t bytes, std::size_t slack) noexcept {
  const std::size_t change = find_change(object + bytes, slack, kSlackByte);
  if (change != slack)
    die_of_write("overflow", object, bytes, static_cast<std::ptrdiff_t>(bytes + change));
}

}  // namespace strata
