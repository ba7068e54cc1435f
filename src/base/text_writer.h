#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

/// Builds text in a buffer of its own, without allocation, locale or stdio: the way an allocator
/// speaks. Text that does not fit is cut, never an error.
/// \threads  One at a time.
class TextWriter {
 public:
  static constexpr std::size_t kCapacity = 1024;

  TextWriter& text(std::string_view value) noexcept;
  /// A name that the program gave, in UTF-8: each control character becomes a question mark.
  TextWriter& name(std::string_view value) noexcept;
  /// As much of a name as leaves room in a line for another one and some numbers: those of C++
  /// templates are longer than a line.
  TextWriter& cut_name(std::string_view value) noexcept;
  TextWriter& decimal(std::uint64_t value, unsigned min_width = 0) noexcept;  ///< right-aligned
  TextWriter& hex(std::uint64_t value) noexcept;                              ///< with 0x
  TextWriter& pointer(const void* value) noexcept;

  std::string_view view() const noexcept { return {buffer_, size_}; }
  void clear() noexcept { size_ = 0; }

 private:
  void append(char c) noexcept;

  char buffer_[kCapacity];
  std::size_t size_ = 0;
};

}  // namespace strata
