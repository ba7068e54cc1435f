#include "shared/trace/layout.h"

#include <array>

namespace strata::trace {
namespace {

constexpr std::uint32_t kReversedPolynomial = 0x82f63b78;

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kReversedPolynomial : 0);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t checksum(const void* bytes, std::size_t count) noexcept {
  std::uint32_t value = ~std::uint32_t{0};
  for (const auto* at = static_cast<const unsigned char*>(bytes); count > 0; ++at, --count) {
    value = value >> 8 ^ kTable[(value ^ *at) & 0xff];
  }
  return ~value;
}

}  // namespace strata::trace
