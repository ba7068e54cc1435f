#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

/// \file  What a test of an allocator knows about its blocks: where they are, and their contents.

namespace strata {

struct Block {
  unsigned char* address;
  std::size_t bytes;
  std::uint64_t tag;
};

/// Writes what a program would write into a block: the start, the end, and a word per 4 KiB between
/// them.
inline void write_content(const Block& block) {
  std::memset(block.address, static_cast<int>(block.tag), std::min<std::size_t>(block.bytes, 64));
  for (std::size_t i = 4096; i + 8 <= block.bytes; i += 4096) {
    const std::uint64_t word = block.tag + i;
    std::memcpy(block.address + i, &word, sizeof word);
  }
  if (block.bytes > 64) block.address[block.bytes - 1] = static_cast<unsigned char>(block.tag);
}

/// \param bytes  how much of the block survived, if it was resized
inline bool has_content(const Block& block, std::size_t bytes) {
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes, 64); ++i) {
    if (block.address[i] != static_cast<unsigned char>(block.tag)) return false;
  }
  for (std::size_t i = 4096; i + 8 <= bytes; i += 4096) {
    std::uint64_t word;
    std::memcpy(&word, block.address + i, sizeof word);
    if (i + 8 == bytes) break;  // the last byte lies over it
    if (word != block.tag + i) return false;
  }
  return bytes <= 64 || bytes != block.bytes ||
         block.address[bytes - 1] == static_cast<unsigned char>(block.tag);
}

/// The addresses of live blocks: nothing that is handed out may overlap any of them.
/// \threads  Any number at once; one mutex.
class Shadow {
 public:
  void add(const void* p, std::size_t bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(p);
    std::lock_guard guard(mutex_);
    auto [it, is_new] = live_.emplace(start, std::max<std::size_t>(bytes, 1));
    ASSERT_TRUE(is_new) << p << " was handed out twice";
    if (std::next(it) != live_.end()) {
      ASSERT_LE(start + bytes, std::next(it)->first) << "overlap";
    }
    if (it != live_.begin()) {
      ASSERT_LE(std::prev(it)->first + std::prev(it)->second, start) << "overlap";
    }
  }
  void remove(const void* p) {
    std::lock_guard guard(mutex_);
    ASSERT_EQ(live_.erase(reinterpret_cast<std::uintptr_t>(p)), 1u);
  }
  void clear() {
    std::lock_guard guard(mutex_);
    live_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::size_t> live_;
};

}  // namespace strata
