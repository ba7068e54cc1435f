#pragma once

#include <strata/heap.hpp>

#include <algorithm>
#include <cstddef>

namespace strata {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

inline Heap::Options named(const char* name) { return {.name = name}; }

inline bool reads_as(const void* p, std::size_t bytes, int value) {
  const auto* at = static_cast<const unsigned char*>(p);
  return std::all_of(at, at + bytes, [&](unsigned char c) { return c == value; });
}

}  // namespace strata
