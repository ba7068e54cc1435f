#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "span/page_heap.h"

namespace strata {

/// Bounds the bytes of objects that all thread caches together may hold: a share of the heap, so
/// that a small program stays small, up to an absolute bound. Each thread may hold an equal part,
/// so 512 threads hoard no more than two. ThreadRegistry owns it.
class CacheBudget {
 public:
  constexpr CacheBudget(const PageHeap& heap, std::size_t most_bytes) noexcept
      : heap_(heap), most_bytes_(most_bytes) {}

  /// Call before the first thread.
  void set_most_bytes(std::size_t bytes) noexcept { most_bytes_ = bytes; }
  /// Under pressure, all caches together get only what a tiny program gets.
  void set_pressure(bool is_pressed) noexcept {
    is_pressed_.store(is_pressed, std::memory_order_relaxed);
  }
  void add_thread() noexcept { threads_.fetch_add(1, std::memory_order_relaxed); }
  void remove_thread() noexcept { threads_.fetch_sub(1, std::memory_order_relaxed); }

  /// What a thread may hold: without and with the bins that lasting loads have grown.
  /// \returns  Below 4 GiB.
  std::size_t share_bytes() const noexcept {
    const std::size_t heap = heap_bytes();
    const std::size_t modest =
        std::max(kModestBytes + heap / kModestShare,
                 threads_.load(std::memory_order_relaxed) * kModestPartBytes);
    return part_of(std::max(std::min(heap / kHeapShare, modest), kLeastBytes));
  }
  std::size_t lasting_share_bytes() const noexcept {
    return part_of(std::max(heap_bytes() / kHeapShare, kLeastLastingBytes));
  }

  /// Pages of the heap in use: a hint. If the page heap has several shards, the number last seen.
  std::size_t heap_pages() const noexcept {
    return heap_.has_one_shard() ? heap_.used_pages() : seen_pages_.load(std::memory_order_relaxed);
  }
  /// Updates that number; every thread calls it now and then.
  void look_at_heap() noexcept {
    const std::size_t now = heap_.used_pages();
    const std::size_t seen = seen_pages_.load(std::memory_order_relaxed);
    const std::size_t little = seen / kLittleChange;
    // All threads read it with each batch, so write it seldom.
    if (now > seen + little || now + little < seen)
      seen_pages_.store(now, std::memory_order_relaxed);
  }

 private:
  // Chosen: with an eighth and 512 KiB, servers with many small threads were twice as slow (larson:
  // 1.8 against 0.5 of glibc's time), and no program's RSS was smaller by more than a twentieth.
  static constexpr std::size_t kHeapShare = 2;
  static constexpr std::size_t kLeastBytes = std::size_t{2} << 20;
  // Chosen: beyond kModestPartBytes, a thread's share comes from an eighth of the heap and
  // kModestBytes. There bins hold more than they give and get (docs/decisions/0004).
  static constexpr std::size_t kModestPartBytes = std::size_t{512} << 10;
  static constexpr std::size_t kModestShare = 8;
  static constexpr std::size_t kModestBytes = std::size_t{4} << 20;
  // Chosen: nearly a batch of 100 objects of 32 KiB for each of eight threads, and as much as all
  // caches may hold by default (docs/decisions/0013).
  static constexpr std::size_t kLeastLastingBytes = std::size_t{32} << 20;
  // Chosen: the size seen is written again only when it is off by more than this part, so what
  // bins may hold is off by no more.
  static constexpr std::size_t kLittleChange = 16;
  // Chosen: still a batch of the usual classes for some threads.
  static constexpr std::size_t kPressedBytes = std::size_t{256} << 10;

  std::size_t heap_bytes() const noexcept { return heap_pages() * kPageBytes; }

  /// A thread's part of what all may hold together.
  std::size_t part_of(std::size_t all_bytes) const noexcept {
    const std::size_t allowed =
        is_pressed_.load(std::memory_order_relaxed) ? kPressedBytes : all_bytes;
    // In 32 bits it takes a third of the time: all caches together get 4 GiB at the most.
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::size_t>({allowed, most_bytes_, UINT32_MAX}));
    return bytes / std::max(threads_.load(std::memory_order_relaxed), std::uint32_t{1});
  }

  const PageHeap& heap_;
  std::size_t most_bytes_;
  // Hints: relaxed, they order nothing.
  std::atomic<std::size_t> seen_pages_{0};
  std::atomic<std::uint32_t> threads_{0};
  std::atomic<bool> is_pressed_{false};
};

}  // namespace strata
