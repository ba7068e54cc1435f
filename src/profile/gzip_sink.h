#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_sink.h"

namespace strata {

/// Wraps bytes as a gzip file without compressing them: pprof expects gzip, and the library links
/// nothing that compresses.
/// \source   RFC 1951 (stored blocks), RFC 1952.
/// \threads  One at a time.
class GzipSink final : public TextSink {
 public:
  explicit GzipSink(TextSink& out) noexcept;
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;

  void write(std::string_view bytes) noexcept override;
  /// Writes the last block and the checksum. Nothing may be written after it.
  void finish() noexcept;

 private:
  // Chosen: small enough for a thread's stack; each block adds five bytes.
  static constexpr std::size_t kBlockBytes = 4096;
  static_assert(kBlockBytes <= 0xffff, "a stored block has 16 bits of length");

  void write_block(bool is_last) noexcept;

  TextSink& out_;
  std::uint32_t crc_ = 0;
  std::uint32_t length_ = 0;
  std::size_t held_ = 0;
  char block_[kBlockBytes];
};

}  // namespace strata
