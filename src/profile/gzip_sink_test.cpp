#include "profile/gzip_sink.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "profile/string_sink_test.h"

namespace strata {
namespace {

std::uint32_t number_at(const std::string& text, std::size_t at, int bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= std::uint32_t{static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)])}
             << 8 * i;
  return value;
}

/// The contents of the stored blocks; `crc` gets the checksum at the end.
std::string unpack(const std::string& file, std::uint32_t& crc) {
  EXPECT_EQ(file.substr(0, 4), std::string("\x1f\x8b\x08\0", 4));
  std::string content;
  std::size_t at = 10;
  for (bool is_last = false; !is_last;) {
    is_last = file.at(at) == 1;
    const std::uint32_t length = number_at(file, at + 1, 2);
    EXPECT_EQ(number_at(file, at + 3, 2), 0xffff - length);
    content += file.substr(at + 5, length);
    at += 5 + length;
  }
  crc = number_at(file, at, 4);
  EXPECT_EQ(number_at(file, at + 4, 4), content.size());
  EXPECT_EQ(at + 8, file.size());
  return content;
}

TEST(GzipSink, HasTheSumThatTheStandardNames) {
  StringSink out;
  GzipSink gzip(out);
  gzip.write("123456789");
  gzip.finish();
  std::uint32_t crc;
  EXPECT_EQ(unpack(out.content, crc), "123456789");
  EXPECT_EQ(crc, 0xcbf43926u);
}

TEST(GzipSink, KeepsContentOfAnyLength) {
  for (std::size_t length : {0, 1, 4095, 4096, 4097, 100'000}) {
    std::string content;
    for (std::size_t i = 0; i < length; ++i) content += static_cast<char>(i * 7);
    StringSink out;
    GzipSink gzip(out);
    // Writes in pieces of all sizes.
    for (std::size_t at = 0, piece = 1; at < length; at += piece, piece = piece * 3 % 5003 + 1)
      gzip.write(std::string_view(content).substr(at, piece));
    gzip.finish();
    std::uint32_t crc;
    EXPECT_EQ(unpack(out.content, crc), content);
  }
}

}  // namespace
}  // namespace strata
