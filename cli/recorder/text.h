#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace strata::recorder {

/// Builds lines of a trace's text in its own buffer. Text that does not fit is truncated before the
/// last character.
class Text {
 public:
  Text& add(std::string_view text) noexcept {
    for (const char c : text) put(c);
    return *this;
  }
  /// Adds a value within a line: characters that would end the line become spaces.
  Text& value(std::string_view text) noexcept {
    for (const char c : text) put(c == '\n' || c == '\r' || c == '\0' ? ' ' : c);
    return *this;
  }
  Text& decimal(std::uint64_t number) noexcept { return digits(number, 10); }
  Text& hex(std::uint64_t number) noexcept { return digits(number, 16); }
  /// name=number
  Text& property(std::string_view name, std::uint64_t number) noexcept {
    return add(name).add("=").decimal(number).add("\n");
  }
  Text& property(std::string_view name, std::string_view text) noexcept {
    return add(name).add("=").value(text).add("\n");
  }
  std::string_view view() const noexcept { return {text_, size_}; }
  const char* c_string() noexcept {
    text_[size_] = '\0';
    return text_;
  }

 private:
  void put(char c) noexcept {
    if (size_ + 2 < sizeof text_ || (c == '\n' && size_ + 1 < sizeof text_)) text_[size_++] = c;
  }
  Text& digits(std::uint64_t number, int base) noexcept {
    char text[20];
    return add({text, std::to_chars(text, std::end(text), number, base).ptr});
  }

  std::size_t size_ = 0;
  char text_[16384] = {};
};

}  // namespace strata::recorder
