#include "base/json_writer.h"

#include "base/text_writer.h"
#include "os/start_of.h"

namespace strata {
namespace {

/// The length of the UTF-8 character at the start of the text, 0 if there is none.
/// \source  The Unicode Standard, table 3-7: well-formed byte sequences
std::size_t character_bytes(std::string_view text) noexcept {
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

}  // namespace

JsonWriter& JsonWriter::number(std::string_view name, std::uint64_t value) noexcept {
  begin_value(name);
  TextWriter digits;
  sink_.write(digits.decimal(value).view());
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view name, std::string_view value) noexcept {
  begin_value(name);
  quote(value);
  return *this;
}

JsonWriter& JsonWriter::begin(std::string_view name, char bracket) noexcept {
  begin_value(name);
  sink_.write({&bracket, 1});
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::end(char bracket) noexcept {
  sink_.write({&bracket, 1});
  needs_comma_ = true;
  return *this;
}

void JsonWriter::begin_value(std::string_view name) noexcept {
  if (needs_comma_) sink_.write(",");
  needs_comma_ = true;
  if (name.empty()) return;
  quote(name);
  sink_.write(":");
}

/// Writes a quoted string. The environment may hold any bytes: those that are not UTF-8 become
/// U+FFFD.
void JsonWriter::quote(std::string_view text) noexcept {
  constexpr char kDigits[] = "0123456789abcdef";
  sink_.write("\"");
  while (!text.empty()) {
    const char c = text[0];
    const auto code = static_cast<unsigned char>(c);
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) {
      sink_.write("\\ufffd");
    } else if (code < 0x20) {
      const char escaped[] = {'\\', 'u', '0', '0', kDigits[code >> 4], kDigits[code & 15]};
      sink_.write({escaped, sizeof escaped});
    } else {
      if (c == '"' || c == '\\') sink_.write("\\");
      sink_.write(os::start_of(text, bytes));
    }
    text.remove_prefix(bytes != 0 ? bytes : 1);
  }
  sink_.write("\"");
}

}  // namespace strata
