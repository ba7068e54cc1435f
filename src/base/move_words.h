#pragma once

#include <cstdint>
#include <cstring>

namespace strata {

/// Copies `count` words, such as pointers to objects, as memmove does. The two ranges may overlap
/// if `to` is the lower one.
///
/// From some 2 KiB on, glibc's memmove is one `rep movsb`. AMD's Zen 4 takes thirty times as
/// long for it if `to` is 8 bytes above `from` in the low 12 bits, twice as long up to 24 bytes:
/// for 1024 words 2.3 µs instead of 0.08. A bin, whose first word holds no object, is just there
/// beside a transfer cache's slots. The loop for this case takes 0.15 µs.
inline void move_words(void** to, void* const* from, std::size_t count) noexcept {
  constexpr std::size_t kFewWords = 256;
  constexpr std::uintptr_t kSlowBytes = 24;
  const auto above =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % 4096;
  if (count <= kFewWords || above - 1 >= kSlowBytes) {
    std::memmove(to, from, count * sizeof(void*));
    return;
  }
  struct [[gnu::packed, gnu::aligned(8), gnu::may_alias]] Words {
    long long values __attribute__((vector_size(16)));
  };
  constexpr std::size_t kStep = 8;
  const std::size_t rest = count % kStep;
  for (void* const* const end = from + (count - rest); from != end; from += kStep, to += kStep) {
    const auto* const read = reinterpret_cast<const Words*>(from);
    auto* const written = reinterpret_cast<Words*>(to);
    const Words a = read[0], b = read[1], c = read[2], d = read[3];
    written[0] = a;
    written[1] = b;
    written[2] = c;
    written[3] = d;
  }
  std::memmove(to, from, rest * sizeof(void*));
}

}  // namespace strata
