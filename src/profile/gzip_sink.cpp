#include "profile/gzip_sink.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace strata {
namespace {

constexpr auto kCrcOfByte = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    table[byte] = crc;
  }
  return table;
}();

/// Writes `count` bytes of `value`, the lowest first.
void put(char* out, std::uint32_t value, int count) noexcept {
  for (int i = 0; i < count; ++i) out[i] = static_cast<char>(value >> 8 * i);
}

}  // namespace

GzipSink::GzipSink(TextSink& out) noexcept : out_(out) {
  // Magic, deflate, no flags, no time, no hint, unknown system.
  out_.write({"\x1f\x8b\x08\0\0\0\0\0\0\xff", 10});
}

void GzipSink::write(std::string_view bytes) noexcept {
  length_ += static_cast<std::uint32_t>(bytes.size());
  std::uint32_t crc = ~crc_;
  for (char c : bytes) crc = crc >> 8 ^ kCrcOfByte[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  crc_ = ~crc;
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), kBlockBytes - held_);
    std::memcpy(block_ + held_, bytes.data(), taken);
    held_ += taken;
    bytes.remove_prefix(taken);
    if (held_ == kBlockBytes) write_block(false);
  }
}

void GzipSink::finish() noexcept {
  write_block(true);
  char sums[8];
  put(sums, crc_, 4);
  put(sums + 4, length_, 4);
  out_.write({sums, sizeof sums});
}

void GzipSink::write_block(bool is_last) noexcept {
  char header[5];
  header[0] = is_last ? 1 : 0;
  put(header + 1, static_cast<std::uint32_t>(held_), 2);
  put(header + 3, ~static_cast<std::uint32_t>(held_), 2);
  out_.write({header, sizeof header});
  out_.write({block_, held_});
  held_ = 0;
}

}  // namespace strata
