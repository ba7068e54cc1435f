#pragma once

#include <strata/bitmap_pool_view.hpp>
#include <strata/block_allocator.hpp>
#include <strata/page_arena.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "harness/own_memory.h"
#include "shared/replay_plan.h"

/// \file  What the calls of one place of the program go to instead of malloc, so that the
/// difference can be measured: each as a program would use it.

namespace strata::cell {

/// All calls stay with malloc.
struct NoRoute {
  explicit NoRoute(const plan::Header&) {}
  void* allocate(std::size_t bytes) noexcept { return std::malloc(bytes); }
  void deallocate(void* p, std::size_t) noexcept { std::free(p); }
};

/// One after the other from the pages of an arena, which starts again when the last has gone.
class ArenaRoute {
 public:
  explicit ArenaRoute(const plan::Header& header)
      : arena_((header.routed_run_bytes / kPageBytes * 2 + 8) * kPageBytes, kPageBytes) {}

  void* allocate(std::size_t bytes) noexcept {
    const std::size_t taken =
        (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    if (taken > static_cast<std::size_t>(end_ - next_) && !add_pages(taken)) return nullptr;
    ++live_;
    std::byte* const block = next_;
    next_ += taken;
    return block;
  }

  void deallocate(void*, std::size_t) noexcept {
    if (--live_ != 0) return;
    arena_.reset();
    next_ = end_ = nullptr;
  }

 private:
  static constexpr std::size_t kPageBytes = 64 * 1024;
  static constexpr std::size_t kAlignment = alignof(std::max_align_t);

  bool add_pages(std::size_t bytes) noexcept {
    const std::size_t count = (bytes + kPageBytes - 1) / kPageBytes;
    auto* const pages = static_cast<std::byte*>(arena_.allocate_pages(count));
    if (pages == nullptr) return false;
    if (pages != end_) next_ = pages;
    end_ = pages + count * kPageBytes;
    return true;
  }

  PageArena arena_;
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
  std::size_t live_ = 0;
};

/// Blocks of one size, of one thread.
class BlockRoute {
 public:
  explicit BlockRoute(const plan::Header& header)
      : bytes_(std::max<std::size_t>(header.routed_bytes, BlockAllocator::kMinBlockBytes)),
        memory_(BlockAllocator::buffer_bytes(bytes_, header.routed_peak)),
        blocks_(memory_.data(), memory_.size(), bytes_) {}
  void* allocate(std::size_t) noexcept { return blocks_.allocate(); }
  void deallocate(void* p, std::size_t) noexcept { blocks_.deallocate(p); }

 private:
  std::size_t bytes_;
  OwnMemory<std::byte, Owner::kContender> memory_;
  BlockAllocator blocks_;
};

/// Blocks of one size for all threads.
class BitmapRoute {
 public:
  explicit BitmapRoute(const plan::Header& header)
      : shape_{.block_bytes = static_cast<std::size_t>(header.routed_bytes),
               // A search beside others may find each block taken at some instant.
               .capacity = header.routed_peak + header.routed_peak / 4 + 64 * header.streams,
               .min_leaves = std::max<std::size_t>(8, header.streams)},
        memory_(BitmapPoolView<>::required_bytes(shape_)),
        pool_(BitmapPoolView<>::try_create_in_zeroed(memory_.data(), memory_.size(), shape_)) {}
  void* allocate(std::size_t) noexcept { return pool_.allocate(); }
  void deallocate(void* p, std::size_t) noexcept { pool_.deallocate(p); }

 private:
  BitmapPoolShape shape_;
  OwnMemory<std::byte, Owner::kContender> memory_;
  BitmapPoolView<> pool_;
};

/// A buffer that each thread keeps for the next time, and makes larger where it must.
class ReuseRoute {
 public:
  explicit ReuseRoute(const plan::Header&) {}
  void* allocate(std::size_t bytes) noexcept {
    Kept& kept = kept_;
    if (kept.is_out) return std::malloc(bytes);
    kept.is_out = true;
    if (bytes > kept.bytes || kept.buffer == nullptr) {
      std::free(kept.buffer);
      kept.buffer = std::malloc(bytes);
      kept.bytes = bytes;
    }
    return kept.buffer;
  }
  void deallocate(void* p, std::size_t) noexcept {
    if (p != kept_.buffer) return std::free(p);
    kept_.is_out = false;
  }

 private:
  struct Kept {
    Kept() {}
    ~Kept() {
      if (!is_out) std::free(buffer);
    }
    void* buffer = nullptr;
    std::size_t bytes = 0;
    bool is_out = false;
  };
  static inline thread_local Kept kept_;
};

}  // namespace strata::cell
