#pragma once

#include <strata/bitmap_pool_cursor.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// A few free blocks of a bitmap pool, kept by one thread, which touches the shared bits only to
/// fetch or return several at once. A trade-off, so no pool does it by itself:
///   won    a pair of operations usually takes no atomic step
///   lost   blocks in a magazine are free for its thread only: others may get nullptr meanwhile.
///          Never more than depth() each; BitmapPoolMagazines bounds all of them together.
///   lost   a block in *another* thread's magazine counts as taken: a second free of it goes
///          unnoticed. All other wrong frees are refused as by the pool.
///   lost   not for interrupt and signal handlers
///
///     strata::BitmapPool<64, 4096> pool;
///     strata::BitmapPoolMagazine mine(pool);  // in a thread that has the pool to itself
///     void* p = mine.allocate();
///     mine.deallocate(p);
/// \threads  The thread that uses it, and no other.
/// \source  Bonwick and Adams, "Magazines and Vmem" (2001).
template <class Pool>
class BitmapPoolMagazine {
 public:
  /// More than 8 gains nothing: four pairs share an atomic step already.
  static constexpr std::size_t kMaxDepth = 8;

  /// What each of `threads` magazines (at least 1) may hold so that all together hold capacity / 4
  /// at most.
  static constexpr std::size_t bounded_depth(std::size_t capacity, std::size_t threads) noexcept {
    const std::size_t share = capacity / 4 / threads;
    return share < kMaxDepth ? share : kMaxDepth;
  }

  /// The only magazine of a pool, of which it holds a quarter at most. The pool must outlive it.
  explicit BitmapPoolMagazine(Pool& from) noexcept
      : BitmapPoolMagazine(from, bounded_depth(from.capacity(), 1)) {}
  /// The `number`-th of several, from 0, which holds up to `depth` blocks, at most kMaxDepth.
  BitmapPoolMagazine(Pool& from, std::size_t depth, std::uint32_t number = 0) noexcept
      : pool_(from),
        depth_(depth < kMaxDepth ? depth : kMaxDepth),
        cursor_(from.nth_cursor(number)) {}
  /// Frees what it holds.
  ~BitmapPoolMagazine() { give_back(count_); }
  BitmapPoolMagazine(const BitmapPoolMagazine&) = delete;
  BitmapPoolMagazine& operator=(const BitmapPoolMagazine&) = delete;

  /// \returns  A block; nullptr if this magazine is empty and the pool returns nullptr.
  /// \cost     A load; every few calls, an allocate_batch().
  void* allocate() noexcept { return count_ != 0 ? blocks_[--count_] : refill(); }

  /// \returns  True if the block is free for this thread now. False, with nothing changed, if p is
  ///           no block of the pool, is free in the pool, or is in this magazine.
  /// \cost     A load of the block's bit and up to depth() comparisons; every few calls, a
  ///           deallocate_batch().
  bool deallocate(void* p) noexcept {
    if (depth_ == 0) return hand_on(p);
    if (!pool_.is_in_use(p)) return false;
    for (std::size_t i = 0; i < count_; ++i) {
      if (blocks_[i] == p) return false;
    }
    if (count_ == depth_) give_back((depth_ + 1) / 2);
    blocks_[count_++] = p;
    return true;
  }

  /// Blocks that it may hold; if 0, every request goes to the pool.
  std::size_t depth() const noexcept { return depth_; }
  /// Free blocks that it holds, which the pool counts as taken.
  std::size_t held() const noexcept { return count_; }

 protected:
  /// Frees the `count` oldest blocks, whose memory is the coldest.
  void give_back(std::size_t count) noexcept {
    pool_.deallocate_batch(blocks_, count);
    count_ -= count;
    for (std::size_t i = 0; i < count_; ++i) blocks_[i] = blocks_[i + count];
  }

 private:
  /// Out of line: inlined, it makes the usual path a sixth slower.
#if defined(__GNUC__)
  [[gnu::noinline]]
#endif
  bool
  hand_on(void* p) noexcept {
    return pool_.deallocate(p, cursor_);
  }

  void* refill() noexcept {
    if (depth_ == 0) return pool_.allocate(cursor_);
    // Half, so that a thread that frees next need not flush at once.
    count_ = pool_.allocate_batch(blocks_, (depth_ + 1) / 2, cursor_);
    return count_ != 0 ? blocks_[--count_] : nullptr;
  }

  Pool& pool_;
  const std::size_t depth_;
  std::size_t count_ = 0;
  BitmapPoolCursor cursor_;
  void* blocks_[kMaxDepth];
};

/// Magazines for threads that come and go. Their number is bounded in advance, and together they
/// hold at most a quarter of the pool, so that idle magazines cannot strand it.
///
///     strata::BitmapPoolMagazines magazines(pool, 8);            // at most eight threads
///     decltype(magazines)::Magazine mine(magazines);             // in each thread
template <class Pool>
class BitmapPoolMagazines {
 public:
  /// Registers at construction, unregisters at destruction. A thread beyond max_threads gets one of
  /// depth 0.
  class Magazine;

  /// For at most `max_threads` magazines at a time (at least 1); the pool must outlive them.
  BitmapPoolMagazines(Pool& from, std::size_t max_threads) noexcept
      : pool_(from),
        max_threads_(max_threads == 0 ? 1 : max_threads),
        depth_(BitmapPoolMagazine<Pool>::bounded_depth(from.capacity(), max_threads_)) {}
  BitmapPoolMagazines(const BitmapPoolMagazines&) = delete;
  BitmapPoolMagazines& operator=(const BitmapPoolMagazines&) = delete;

  /// Blocks that one magazine may hold; 0 for a pool too small to spare any.
  std::size_t depth() const noexcept { return depth_; }

 private:
  Pool& pool_;
  std::size_t max_threads_;
  std::size_t depth_;
  std::atomic<std::uint32_t> registered_{0};
};

template <class Pool>
class BitmapPoolMagazines<Pool>::Magazine : public BitmapPoolMagazine<Pool> {
 public:
  // relaxed: only the number counts; the pool orders the blocks.
  explicit Magazine(BitmapPoolMagazines& magazines) noexcept
      : Magazine(magazines, magazines.registered_.fetch_add(1, std::memory_order_relaxed)) {}
  ~Magazine() {
    this->give_back(this->held());  // before another one may take its place
    magazines_.registered_.fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  Magazine(BitmapPoolMagazines& magazines, std::uint32_t number) noexcept
      : BitmapPoolMagazine<Pool>(magazines.pool_,
                                 number < magazines.max_threads_ ? magazines.depth_ : 0, number),
        magazines_(magazines) {}

  BitmapPoolMagazines& magazines_;
};

}  // namespace strata
