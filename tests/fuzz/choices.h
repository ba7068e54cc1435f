#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

/// \file  The base of every fuzz target: libFuzzer's bytes, read as choices, and a way to die.

namespace strata::fuzz {

/// Ends the target if the code under test broke a promise.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  __builtin_trap();
}

/// Reads choices from front to back. After the last byte, each choice is 0, the first one.
class Choices {
 public:
  Choices(const unsigned char* data, std::size_t size) : data_(data), end_(data + size) {}

  bool is_over() const { return data_ == end_; }
  std::uint8_t byte() { return is_over() ? 0 : *data_++; }
  bool flag() { return (byte() & 1) != 0; }

  /// Any 64 bits.
  std::uint64_t word() { return bits(8); }

  /// From 0 to limit - 1; reads no more bytes than that needs.
  std::size_t below(std::size_t limit) {
    unsigned bytes = 1;
    while (bytes < 8 && (limit - 1) >> (8 * bytes) != 0) ++bytes;
    return static_cast<std::size_t>(bits(bytes)) % limit;
  }

  /// A size as programs request it: mostly small, often next to a power of two, sometimes absurd.
  std::size_t size(std::size_t usual_most) {
    const std::uint8_t kind = byte();
    if (kind < 160) return below(usual_most < 1100 ? usual_most + 1 : 1100);
    if (kind < 224) return below(usual_most + 1);
    if (kind < 250) return ((std::size_t{1} << below(40)) + below(3) - 1) % (usual_most + 1);
    return static_cast<std::size_t>(word());
  }

  /// A power of two, up to 2^most_shift.
  std::size_t alignment(unsigned most_shift) { return std::size_t{1} << below(most_shift + 1); }

  /// At most so many of the remaining bytes.
  std::string_view text(std::size_t most) {
    const auto left = static_cast<std::size_t>(end_ - data_);
    const std::string_view taken(reinterpret_cast<const char*>(data_), left < most ? left : most);
    data_ += taken.size();
    return taken;
  }
  std::string_view rest() { return text(~std::size_t{0}); }

 private:
  std::uint64_t bits(unsigned bytes) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{byte()} << (8 * i);
    return value;
  }

  const unsigned char* data_;
  const unsigned char* end_;
};

}  // namespace strata::fuzz

/// The body of a target: STRATA_FUZZ(choices) { … }
#define STRATA_FUZZ(choices)                                                            \
  static void fuzz_one(::strata::fuzz::Choices& choices);                               \
  extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t bytes) { \
    ::strata::fuzz::Choices choices_of_input(data, bytes);                              \
    fuzz_one(choices_of_input);                                                         \
    return 0;                                                                           \
  }                                                                                     \
  static void fuzz_one([[maybe_unused]] ::strata::fuzz::Choices& choices)
