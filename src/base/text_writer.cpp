#include "base/text_writer.h"

#include "os/text_parts.h"

namespace strata {

void TextWriter::append(char c) noexcept {
  if (size_ < kCapacity) buffer_[size_++] = c;
}

TextWriter& TextWriter::text(std::string_view value) noexcept {
  for (char c : value) append(c);
  return *this;
}

TextWriter& TextWriter::name(std::string_view value) noexcept {
  const auto byte = [&](std::size_t at) {
    return at < value.size() ? static_cast<unsigned char>(value[at]) : 0;
  };
  for (std::size_t i = 0; i < value.size(); ++i) {
    // U+0080 to U+009F: some terminals take them as others do ESC and a letter.
    const bool is_c1 = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) <= 0x9f;
    append(is_c1 || byte(i) < 0x20 || byte(i) == 0x7f ? '?' : value[i]);
    if (is_c1) ++i;
  }
  return *this;
}

TextWriter& TextWriter::cut_name(std::string_view value) noexcept {
  return name(os::start_of(value, kCapacity * 7 / 16));
}

TextWriter& TextWriter::decimal(std::uint64_t value, unsigned min_width) noexcept {
  char digits[20];
  unsigned count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  for (unsigned i = count; i < min_width; ++i) append(' ');
  while (count != 0) append(digits[--count]);
  return *this;
}

TextWriter& TextWriter::hex(std::uint64_t value) noexcept {
  text("0x");
  int shift = 60;
  while (shift > 0 && (value >> shift) == 0) shift -= 4;
  for (; shift >= 0; shift -= 4) append("0123456789abcdef"[(value >> shift) & 15]);
  return *this;
}

TextWriter& TextWriter::pointer(const void* value) noexcept {
  return hex(reinterpret_cast<std::uintptr_t>(value));
}

}  // namespace strata
