#include "base/json_writer.h"

#include "base/text_writer.h"
#include "base/utf8.h"
#include "os/text_parts.h"

namespace strata {

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
