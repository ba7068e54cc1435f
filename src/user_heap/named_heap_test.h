#pragma once

#include <strata/heap.hpp>

#include <cstddef>

namespace strata {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

inline Heap::Options named(const char* name) {
  Heap::Options options;
  options.name = name;
  return options;
}

}  // namespace strata
