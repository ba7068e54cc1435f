#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace strata::cli {

/// Why a profile cannot be read: the rest of a sentence that begins with the file's name.
class DamagedProfile : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads a protocol buffer message field by field, with bounds checks. Fields may have any order;
/// callers skip unknown ones.
/// \source  https://protobuf.dev/programming-guides/encoding/
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  /// Advances to the next field.
  /// \returns  false at the end.
  /// \errors   DamagedProfile.
  bool next();

  unsigned field() const noexcept { return field_; }

  /// The field's value as a number.
  /// \errors  DamagedProfile if it is not a number.
  std::uint64_t number() const;
  std::int64_t signed_number() const { return static_cast<std::int64_t>(number()); }

  /// The field's value as text or a nested message.
  /// \errors  DamagedProfile if it is neither.
  std::string_view bytes() const;

  /// Calls `take(number)` for each number of a repeated field, packed or not.
  template <typename Take>
  void for_each_number(Take take) const {
    if (!is_bytes_) return take(number());
    for (std::string_view rest = bytes(); !rest.empty();) take(read_varint(rest));
  }

 private:
  static std::uint64_t read_varint(std::string_view& rest);
  static std::string_view read_bytes(std::string_view& rest, std::uint64_t size);

  std::string_view rest_;
  std::string_view bytes_;
  std::uint64_t number_ = 0;
  unsigned field_ = 0;
  bool is_bytes_ = false;
};

}  // namespace strata::cli
