#pragma once

#include <strata/detail/bits.hpp>

#include <algorithm>
#include <cstddef>

#include "os/page_source.h"

namespace strata {

/// Zeroed pages for the time of one call, for data too large for the stack: a thread's may have 16
/// KiB.
class Scratch {
 public:
  Scratch(os::PageSource& pages, std::size_t bytes) noexcept
      : pages_(pages),
        bytes_(detail::round_up(std::max(bytes, std::size_t{1}), os::page_bytes())),
        memory_(pages.map_apart(bytes_)) {}
  ~Scratch() {
    if (memory_ != nullptr) pages_.unmap_apart(memory_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* memory() const noexcept { return memory_; }  ///< nullptr when out of memory

 private:
  os::PageSource& pages_;
  const std::size_t bytes_;
  void* const memory_;
};

}  // namespace strata
