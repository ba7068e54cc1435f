#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace strata::cli {

/// Why a profile cannot be read, as the end of a sentence that begins with the file's name.
class DamagedProfile : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads one message of protocol buffers, field by field, and never beyond its end. Fields come in
/// any order; a reader skips those that it does not know.
/// \source  https://protobuf.dev/programming-guides/encoding/
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  /// Goes to the next field.
  /// \returns  false at the end.
  /// \errors   DamagedProfile.
  bool next();

  unsigned field() const noexcept { return field_; }

  /// The field as a number.
  /// \errors  DamagedProfile if it is none.
  std::uint64_t number() const;
  std::int64_t signed_number() const { return static_cast<std::int64_t>(number()); }

  /// The field as text or as a message of its own.
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
