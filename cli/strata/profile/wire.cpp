#include "profile/wire.h"

namespace strata::cli {
namespace {

enum WireType : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

}  // namespace

bool WireReader::next() {
  if (rest_.empty()) return false;
  const std::uint64_t tag = read_varint(rest_);
  field_ = static_cast<unsigned>(tag >> 3);
  is_bytes_ = false;
  switch (tag & 7) {
    case kVarint:
      number_ = read_varint(rest_);
      return true;
    case kBytes:
      is_bytes_ = true;
      bytes_ = read_bytes(rest_, read_varint(rest_));
      return true;
    // Profiles have no such fields; later versions may.
    case kFixed64:
      read_bytes(rest_, 8);
      number_ = 0;
      return true;
    case kFixed32:
      read_bytes(rest_, 4);
      number_ = 0;
      return true;
    default:
      throw DamagedProfile("a field has an unknown type");
  }
}

std::uint64_t WireReader::number() const {
  if (is_bytes_) throw DamagedProfile("text stands where a number should");
  return number_;
}

std::string_view WireReader::bytes() const {
  if (!is_bytes_) throw DamagedProfile("a number stands where text should");
  return bytes_;
}

std::uint64_t WireReader::read_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest.empty()) throw DamagedProfile("it ends in the middle of a number");
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  throw DamagedProfile("a number does not end");
}

std::string_view WireReader::read_bytes(std::string_view& rest, std::uint64_t size) {
  if (size > rest.size()) throw DamagedProfile("it ends in the middle of a field");
  const std::string_view bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return bytes;
}

}  // namespace strata::cli
