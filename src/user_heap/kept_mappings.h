#pragma once

#include <strata/detail/bits.hpp>

#include <cstddef>

#include "base/lock.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"

namespace strata {

/// A source of mappings of one size that keeps a few freed ones: short-lived heaps neither map nor
/// touch new memory, and after a peak of heaps hardly anything stays.
/// \threads  Any number at once; one lock, not held during system calls.
class KeptMappings {
 public:
  constexpr KeptMappings(os::PageSource& pages, std::size_t bytes) noexcept
      : pages_(pages), bytes_(bytes) {}
  KeptMappings(const KeptMappings&) = delete;
  KeptMappings& operator=(const KeptMappings&) = delete;

  /// \returns  Memory aligned to an OS page, contents unspecified; nullptr when out of memory.
  void* take() noexcept {
    {
      LockGuard guard(lock_);
      if (count_ != 0) return kept_[--count_];
    }
    return pages_.map(rounded_bytes());
  }
  void give_back(void* memory) noexcept {
    {
      LockGuard guard(lock_);
      if (count_ < kMost) {
        kept_[count_++] = memory;
        return;
      }
    }
    pages_.unmap(memory, rounded_bytes());
  }

  Lock& lock() noexcept { return lock_; }  ///< for fork

 private:
  // Chosen: as many requests as a small server has at once.
  static constexpr std::size_t kMost = 16;

  std::size_t rounded_bytes() const noexcept { return detail::round_up(bytes_, os::page_bytes()); }

  os::PageSource& pages_;
  const std::size_t bytes_;
  Lock lock_{LockRank::kLeaf};
  void* kept_[kMost] STRATA_GUARDED_BY(lock_) = {};
  std::size_t count_ STRATA_GUARDED_BY(lock_) = 0;
};

}  // namespace strata
