#pragma once

#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_magazine.hpp>
#include <strata/bitmap_pool_view.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if __has_include(<boost/lockfree/detail/freelist.hpp>)
#include <boost/lockfree/detail/freelist.hpp>
#define STRATA_BENCH_HAS_BOOST 1
#endif

/// \file  Pools of 64-byte blocks that threads can share, behind one interface: a contender is made
///        for `Capacity` blocks; each thread makes its own Contender::Thread and calls allocate()
///        and deallocate() on it.

namespace strata::bench {

inline constexpr std::size_t kBlockBytes = 64;
struct alignas(kBlockBytes) Block {
  unsigned char bytes[kBlockBytes];
};

/// The Thread of contenders that keep nothing per thread.
template <class Contender>
struct PlainThread {
  explicit PlainThread(Contender& shared) : pool(shared) {}
  void* allocate() { return pool.allocate(); }
  void deallocate(void* p) { pool.deallocate(p); }
  Contender& pool;
};

template <std::size_t Capacity>
struct StrataPool {
  static constexpr const char* kName = "strata";
  using Thread = PlainThread<StrataPool>;
  void* allocate() { return pool.allocate(); }
  void deallocate(void* p) { pool.deallocate(p); }
  BitmapPool<kBlockBytes, Capacity> pool;
};

/// The same, the lowest free block first.
template <std::size_t Capacity>
struct StrataLowest {
  static constexpr const char* kName = "strata_lowest";
  using Thread = PlainThread<StrataLowest>;
  void* allocate() { return pool.allocate(); }
  void deallocate(void* p) { pool.deallocate(p); }
  BitmapPool<kBlockBytes, Capacity, 0, 1, LowestFreeFirst> pool;
};

/// The same through a handle, with sizes known only at run time.
template <std::size_t Capacity>
struct StrataView {
  static constexpr const char* kName = "strata_view";
  struct Thread {
    explicit Thread(StrataView& shared) : pool(shared.pool) {}
    void* allocate() { return pool.allocate(); }
    void deallocate(void* p) { pool.deallocate(p); }
    BitmapPoolView<> pool;
  };
  static constexpr BitmapPoolShape kShape{kBlockBytes, Capacity};
  StrataView()
      : memory(std::aligned_alloc(64, BitmapPoolView<>::required_bytes(kShape))),
        pool(BitmapPoolView<>::try_create(memory, BitmapPoolView<>::required_bytes(kShape),
                                          kShape)) {}
  ~StrataView() { std::free(memory); }
  StrataView(const StrataView&) = delete;
  StrataView& operator=(const StrataView&) = delete;
  void* memory;
  BitmapPoolView<> pool;
};

template <std::size_t Capacity>
struct StrataMagazine {
  static constexpr const char* kName = "strata_magazine";
  using Pool = BitmapPool<kBlockBytes, Capacity>;
  struct Thread {
    explicit Thread(StrataMagazine& shared) : magazine(shared.magazines) {}
    void* allocate() { return magazine.allocate(); }
    void deallocate(void* p) { magazine.deallocate(p); }
    typename BitmapPoolMagazines<Pool>::Magazine magazine;
  };
  Pool pool;
  BitmapPoolMagazines<Pool> magazines{pool, 8};
};

/// A bitmap as it is usually written: dense words, searched from the first on, and a
/// compare-exchange that is repeated until it succeeds. One word for 64 blocks.
template <std::size_t Capacity>
struct OneBitmap {
  static constexpr const char* kName = "bitmap_cas";
  using Thread = PlainThread<OneBitmap>;
  void* allocate() {
    for (std::size_t i = 0; i < kWords; ++i) {
      std::uint64_t taken = words[i].load(std::memory_order_relaxed);
      while (~taken != 0) {
        const unsigned bit = detail::count_trailing_zeros(~taken);
        if (words[i].compare_exchange_weak(taken, taken | (std::uint64_t{1} << bit))) {
          return &blocks[i * 64 + bit];
        }
      }
    }
    return nullptr;
  }
  void deallocate(void* p) {
    const auto index = static_cast<std::size_t>(static_cast<Block*>(p) - blocks.get());
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    std::uint64_t taken = words[index / 64].load(std::memory_order_relaxed);
    while (!words[index / 64].compare_exchange_weak(taken, taken & ~bit)) {
    }
  }
  static constexpr std::size_t kWords = Capacity / 64;
  std::unique_ptr<std::atomic<std::uint64_t>[]> words {
    new std::atomic<std::uint64_t>[ kWords ]()
  };
  std::unique_ptr<Block[]> blocks{new Block[Capacity]};
};

/// A stack of free blocks with links beside them. The head and a tag against ABA share one word.
template <std::size_t Capacity>
struct TaggedStack {
  static constexpr const char* kName = "tagged_stack";
  using Thread = PlainThread<TaggedStack>;
  TaggedStack() {
    for (std::uint32_t i = 0; i < Capacity; ++i) links[i].store(i + 1, std::memory_order_relaxed);
  }
  void* allocate() {
    std::uint64_t head = top.load(std::memory_order_acquire);
    for (;;) {
      const auto index = static_cast<std::uint32_t>(head);
      if (index == Capacity) return nullptr;
      const std::uint64_t next = links[index].load(std::memory_order_relaxed);
      if (top.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | next,
                                    std::memory_order_acquire)) {
        return &blocks[index];
      }
    }
  }
  void deallocate(void* p) {
    const auto index = static_cast<std::uint64_t>(static_cast<Block*>(p) - blocks.get());
    std::uint64_t head = top.load(std::memory_order_relaxed);
    do {
      links[index].store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
    } while (!top.compare_exchange_weak(head, ((head >> 32) + 1) << 32 | index,
                                        std::memory_order_release));
  }
  alignas(64) std::atomic<std::uint64_t> top{0};
  std::unique_ptr<std::atomic<std::uint32_t>[]> links {
    new std::atomic<std::uint32_t>[ Capacity ]
  };
  std::unique_ptr<Block[]> blocks{new Block[Capacity]};
};

template <std::size_t Capacity>
struct MutexList {
  static constexpr const char* kName = "mutex_list";
  using Thread = PlainThread<MutexList>;
  MutexList() {
    for (std::size_t i = 0; i < Capacity; ++i) deallocate(&blocks[i]);
  }
  void* allocate() {
    const std::lock_guard guard(mutex);
    void* const p = top;
    if (p != nullptr) top = *static_cast<void**>(p);
    return p;
  }
  void deallocate(void* p) {
    const std::lock_guard guard(mutex);
    *static_cast<void**>(p) = top;
    top = p;
  }
  std::mutex mutex;
  void* top = nullptr;
  std::unique_ptr<Block[]> blocks{new Block[Capacity]};
};

#ifdef STRATA_BENCH_HAS_BOOST
/// The free list that boost::lockfree's containers use.
template <std::size_t Capacity>
struct BoostFreelist {
  static constexpr const char* kName = "boost_freelist";
  using Thread = PlainThread<BoostFreelist>;
  void* allocate() { return pool.template allocate<true, true>(); }
  void deallocate(void* p) { pool.template deallocate<true>(static_cast<Block*>(p)); }
  struct Pool : boost::lockfree::detail::freelist_stack<Block> {
    using Base = boost::lockfree::detail::freelist_stack<Block>;
    Pool() : Base(std::allocator<Block>(), Capacity) {}
    using Base::allocate;
    using Base::deallocate;
  };
  Pool pool;
};
#endif

/// Unbounded, for scale.
template <std::size_t Capacity>
struct SystemMalloc {
  static constexpr const char* kName = "malloc";
  using Thread = PlainThread<SystemMalloc>;
  void* allocate() { return std::malloc(kBlockBytes); }
  void deallocate(void* p) { std::free(p); }
};

/// Measures what the harness itself costs.
template <std::size_t Capacity>
struct EmptyOperation {
  static constexpr const char* kName = "empty";
  using Thread = PlainThread<EmptyOperation>;
  void* allocate() { return block; }
  void deallocate(void*) {}
  alignas(64) unsigned char block[kBlockBytes];
};

}  // namespace strata::bench
