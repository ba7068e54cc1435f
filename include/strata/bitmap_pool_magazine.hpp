#pragma once

#include <strata/bitmap_pool_cursor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// Magazines for a bitmap pool: each registered thread keeps a few free blocks for itself and
/// touches the shared bits only to fetch or return several at once. A trade, so it is nothing that
/// a pool does by itself:
///   won    a pair of operations without any atomic step, as a rule
///   lost   blocks in a magazine are free for its thread only: nullptr may come while others keep
///          some. They keep a quarter of the pool at most, all together: that is what depth() sees
///          to, so that no number of idle magazines strands the pool.
///   lost   a block that is in *another* thread's magazine counts as taken: freeing it a second
///          time goes unnoticed. All other wrong frees are refused as by the pool.
///   lost   not for interrupt and signal handlers
///
///     strata::BitmapPool<64, 4096> pool;
///     strata::BitmapPoolMagazines magazines(pool, 8);            // at most eight threads
///     decltype(magazines)::Magazine mine(magazines);             // in each thread
///     void* p = mine.allocate();
///     mine.deallocate(p);
/// \source  Bonwick and Adams, "Magazines and Vmem" (2001).
template <class Pool>
class BitmapPoolMagazines {
 public:
  /// Above 8 nothing is left to gain: an atomic step is then shared by four pairs.
  static constexpr std::size_t kMaxDepth = 8;

  class Magazine;

  /// For at most `max_threads` magazines at a time (at least 1); the pool must outlive them.
  BitmapPoolMagazines(Pool& pool, std::size_t max_threads) noexcept
      : pool_(pool),
        max_threads_(max_threads == 0 ? 1 : max_threads),
        depth_(bounded_depth(pool.capacity(), max_threads_)) {}
  BitmapPoolMagazines(const BitmapPoolMagazines&) = delete;
  BitmapPoolMagazines& operator=(const BitmapPoolMagazines&) = delete;

  /// Blocks that one magazine may hold: all together hold capacity / 4 at most. 0 for a pool so
  /// small that none can be spared: every operation then goes to the pool.
  std::size_t depth() const noexcept { return depth_; }

  static constexpr std::size_t bounded_depth(std::size_t capacity,
                                             std::size_t max_threads) noexcept {
    const std::size_t share = capacity / 4 / max_threads;
    return share < kMaxDepth ? share : kMaxDepth;
  }

 private:
  Pool& pool_;
  std::size_t max_threads_;
  std::size_t depth_;
  std::atomic<std::size_t> registered_{0};
};

/// One thread's magazine; it registers at construction and frees what it holds at destruction.
/// The thread beyond max_threads gets one of depth 0, which hands every request on to the pool.
/// \threads  The thread that uses it, and no other.
template <class Pool>
class BitmapPoolMagazines<Pool>::Magazine {
 public:
  explicit Magazine(BitmapPoolMagazines& magazines) noexcept
      : magazines_(magazines), pool_(magazines.pool_) {
    // relaxed: only the number counts; the blocks are ordered by the pool.
    const std::size_t number = magazines.registered_.fetch_add(1, std::memory_order_relaxed);
    depth_ = number < magazines.max_threads_ ? magazines.depth_ : 0;
    cursor_ = pool_.nth_cursor(static_cast<std::uint32_t>(number));
  }
  ~Magazine() {
    give_back(count_);
    magazines_.registered_.fetch_sub(1, std::memory_order_relaxed);
  }
  Magazine(const Magazine&) = delete;
  Magazine& operator=(const Magazine&) = delete;

  /// \returns  A block; nullptr if this magazine is empty and the pool says nullptr.
  /// \cost     A load; each few times what allocate_batch() costs.
  void* allocate() noexcept { return count_ != 0 ? blocks_[--count_] : refill(); }

  /// \returns  True if the block is free for this thread now. False, and nothing has changed, if p
  ///           is no block of the pool, is free in the pool, or is in this magazine.
  /// \cost     A load of the block's bit and a glance at depth() pointers; each few times what
  ///           deallocate_batch() costs.
  bool deallocate(void* p) noexcept {
    if (depth_ == 0) return pool_.deallocate(p);
    if (!pool_.is_in_use(p)) return false;
    for (std::size_t i = 0; i < count_; ++i) {
      if (blocks_[i] == p) return false;
    }
    if (count_ == depth_) give_back((depth_ + 1) / 2);
    blocks_[count_++] = p;
    return true;
  }

  std::size_t depth() const noexcept { return depth_; }
  /// Free blocks in here, which the pool counts as taken.
  std::size_t held() const noexcept { return count_; }

 private:
  void* refill() noexcept {
    if (depth_ == 0) return pool_.allocate(cursor_);
    // Half: a thread that frees next must not have to flush at once.
    count_ = pool_.allocate_batch(blocks_, (depth_ + 1) / 2, cursor_);
    return count_ != 0 ? blocks_[--count_] : nullptr;
  }

  /// The `count` oldest, whose memory is the coldest.
  void give_back(std::size_t count) noexcept {
    pool_.deallocate_batch(blocks_, count);
    count_ -= count;
    for (std::size_t i = 0; i < count_; ++i) blocks_[i] = blocks_[i + count];
  }

  BitmapPoolMagazines& magazines_;
  Pool& pool_;
  std::size_t depth_;
  std::size_t count_ = 0;
  BitmapPoolCursor cursor_;
  void* blocks_[kMaxDepth];
};

}  // namespace strata
