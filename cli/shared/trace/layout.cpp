#include "shared/trace/layout.h"

#include <array>

namespace strata::trace {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;
constexpr std::size_t kAtOnce = 8;

/// Table n holds the checksum of each byte followed by n zero bytes.
using Tables = std::array<std::array<std::uint32_t, 256>, kAtOnce>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kReversedPolynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t n = 1; n < kAtOnce; ++n) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t value = tables[n - 1][byte];
      tables[n][byte] = value >> 8 ^ tables[0][value & 0xff];
    }
  }
  return tables;
}
constexpr Tables kTables = make_tables();

}  // namespace

/// Processes eight bytes at a time, each through its own table.
/// \source  Kounavis, Berry, "Novel table lookup-based algorithms for high-performance CRC
///          generation" (2008)
std::uint32_t checksum(const void* bytes, std::size_t count) noexcept {
  std::uint32_t value = ~std::uint32_t{0};
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (; count >= kAtOnce; at += kAtOnce, count -= kAtOnce) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    word ^= value;
    value = 0;
    for (std::size_t i = 0; i < kAtOnce; ++i) {
      value ^= kTables[kAtOnce - 1 - i][word >> 8 * i & 0xff];
    }
  }
  for (; count > 0; ++at, --count) value = value >> 8 ^ kTables[0][(value ^ *at) & 0xff];
  return ~value;
}

}  // namespace strata::trace
