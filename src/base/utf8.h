#pragma once

#include <cstddef>
#include <string_view>

namespace strata {

/// U+FFFD, which stands for bytes that are not UTF-8.
inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

/// The length of the UTF-8 character at the start of the text, 0 if there is none.
/// \pre     the text is not empty
/// \source  The Unicode Standard, table 3-7: well-formed byte sequences
constexpr std::size_t character_bytes(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  // What the second byte must not be: longer than needed, a surrogate, beyond the last character.
  const unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < least || at(1) > most) return 0;
  for (std::size_t i = 2; i < bytes; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return bytes;
}

}  // namespace strata
