#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

/// \file  Stamps are written into every block and checked before it is freed. If two blocks
/// overlap, one owner overwrites the other's stamp.

namespace strata::cell {

/// A block of the measured allocator, in a scenario's table.
struct Block {
  std::byte* address = nullptr;
  std::uint32_t bytes = 0;
  std::uint32_t stamp = 0;  ///< the value written into the block; odd: into every byte of it

  explicit operator bool() const noexcept { return address != nullptr; }
};
static_assert(sizeof(Block) == 16, "four blocks to a cache line of the scenario's table");

namespace detail {

inline constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
inline constexpr std::size_t kWord = sizeof(std::uint64_t);
inline constexpr std::size_t kPage = 4096;

inline std::uint64_t word_of(std::uint32_t stamp, std::size_t offset) noexcept {
  return (stamp + offset * 0x100000001) * kSpread;
}

/// Calls visit(offset, word, length) for each word of the block and for the remaining bytes, until
/// one call returns false.
template <typename Visit>
[[gnu::noinline]] bool for_every_word(std::uint32_t bytes, std::uint32_t stamp,
                                      Visit visit) noexcept {
  const std::size_t rest_at = bytes / kWord * kWord;
  for (std::size_t at = 0; at < rest_at; at += kWord) {
    if (!visit(at, word_of(stamp, at), kWord)) return false;
  }
  return bytes == rest_at || visit(rest_at, word_of(stamp, rest_at), bytes - rest_at);
}

/// The same for the words that a stamp covers: every word if the stamp is whole, else the first,
/// the last and one per page, with a length that the compiler knows.
template <typename Visit>
[[gnu::always_inline]] inline bool for_each_word(std::uint32_t bytes, std::uint32_t stamp,
                                                 Visit visit) noexcept {
  if ((stamp & 1) != 0 || bytes < kWord) return for_every_word(bytes, stamp, visit);
  if (!visit(std::size_t{0}, word_of(stamp, 0), kWord)) return false;
  if (bytes < 2 * kWord) return true;
  const std::size_t last = bytes - kWord;
  for (std::size_t at = kPage; at + kWord <= last; at += kPage) {
    if (!visit(at, word_of(stamp, at), kWord)) return false;
  }
  return visit(last, word_of(stamp, last), kWord);
}

}  // namespace detail

inline void write_stamp(const Block& block) noexcept {
  detail::for_each_word(block.bytes, block.stamp,
                        [&](std::size_t at, std::uint64_t word, std::size_t length) {
                          std::memcpy(block.address + at, &word, length);
                          return true;
                        });
}

inline bool has_stamp(const Block& block) noexcept {
  return detail::for_each_word(block.bytes, block.stamp,
                               [&](std::size_t at, std::uint64_t word, std::size_t length) {
                                 return std::memcmp(block.address + at, &word, length) == 0;
                               });
}

}  // namespace strata::cell
