#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace strata::os {

/// A path built in place; one that does not fit is empty, and cannot be opened.
class Path {
 public:
  /// Begins again, with nothing.
  Path& clear() noexcept {
    has_failed_ = false;
    return cut(0);
  }
  Path& add(std::string_view part) noexcept {
    has_failed_ = has_failed_ || part.size() >= sizeof text_ - size_;
    if (has_failed_) return cut(0);
    if (!part.empty()) std::memcpy(text_ + size_, part.data(), part.size());
    return cut(size_ + part.size());
  }
  Path& add(std::uint64_t number) noexcept {
    char digits[20];
    const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    return add({digits, static_cast<std::size_t>(end - digits)});
  }
  /// Removes what follows the last slash, from `least` on. False if there is none.
  bool cut_last_part(std::size_t least) noexcept {
    const std::size_t slash = view().rfind('/');
    if (slash == std::string_view::npos || slash < least) return false;
    cut(slash);
    return true;
  }
  bool fits() const noexcept { return !has_failed_; }
  std::string_view view() const noexcept { return {text_, size_}; }
  const char* c_str() const noexcept { return text_; }

 private:
  Path& cut(std::size_t bytes) noexcept {
    size_ = bytes;
    text_[size_] = '\0';
    return *this;
  }

  char text_[4096] = "";
  std::size_t size_ = 0;
  bool has_failed_ = false;
};

}  // namespace strata::os
