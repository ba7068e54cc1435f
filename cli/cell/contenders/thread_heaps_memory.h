#pragma once

#include <strata/thread_heaps.hpp>

#include <algorithm>
#include <cstddef>

#include "contenders/needs.h"

namespace strata::cell {

/// ThreadHeaps without a budget and with default options, with or without the background reclaimer.
template <bool kReclaims>
class ThreadHeapsMemory {
 public:
  static constexpr const char* kName = kReclaims ? "reclaiming-heaps" : "thread-heaps";
  static constexpr const char* kSentence =
      kReclaims ? "strata::ThreadHeaps that return idle memory to the kernel"
                : "strata::ThreadHeaps: coalescing heaps for many threads";

  static const char* why_unfit(const Needs&) { return nullptr; }

  explicit ThreadHeapsMemory(const Needs& needs)
      // A request cannot be larger than an arena.
      : ThreadHeapsMemory(std::max(ThreadHeaps::Options().arena_bytes, 2 * needs.largest_bytes)) {}
  explicit ThreadHeapsMemory(std::size_t arena_bytes) : heaps_(options(arena_bytes)) {}

  void* allocate(std::size_t bytes) noexcept { return heaps_.allocate(bytes); }
  void deallocate(void* p, std::size_t) noexcept { heaps_.deallocate(p); }
  void* reallocate(void* p, std::size_t, std::size_t bytes) noexcept {
    return heaps_.reallocate(p, bytes);
  }

 private:
  static ThreadHeaps::Options options(std::size_t arena_bytes) {
    ThreadHeaps::Options options;
    options.reclaims = kReclaims;
    options.arena_bytes = arena_bytes;
    return options;
  }

  ThreadHeaps heaps_;
};

}  // namespace strata::cell
