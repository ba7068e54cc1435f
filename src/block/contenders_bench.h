#pragma once

#include <strata/block_allocator.hpp>
#include <strata/growing_block_allocator.hpp>

#include <benchmark/benchmark.h>

#include <boost/lockfree/detail/freelist.hpp>
#include <boost/pool/pool.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <string>

#include "block/verified_work.h"

/// \file  The contenders of our pools, all in one binary: three limits that no real pool can beat,
///        and what programs use today. Each is made for n blocks of kBytes and has allocate() and
///        deallocate(p).

namespace strata::bench {

// --- limits: no checks, no policy, the least code that works -------------------------------------

/// A pointer that only goes up, and starts again when everything is free.
template <std::size_t kBytes>
class Bump {
 public:
  static constexpr const char* kName = "limit:bump";
  explicit Bump(std::size_t n) : memory_(new char[n * kBytes]), next_(memory_.get()) {}
  void* allocate() noexcept {
    void* p = next_;
    next_ += kBytes;
    ++live_;
    return p;
  }
  void deallocate(void*) noexcept {
    if (--live_ == 0) next_ = memory_.get();
  }

 private:
  std::unique_ptr<char[]> memory_;
  char* next_;
  std::size_t live_ = 0;
};

/// A list through the free blocks.
template <std::size_t kBytes>
class IntrusiveStack {
 public:
  static constexpr const char* kName = "limit:intrusive";
  explicit IntrusiveStack(std::size_t n) : memory_(new char[n * kBytes]), n_(n) {}
  void* allocate() noexcept {
    if (void* p = head_) {
      std::memcpy(&head_, p, sizeof head_);
      return p;
    }
    return fresh_ == n_ ? nullptr : memory_.get() + fresh_++ * kBytes;
  }
  void deallocate(void* p) noexcept {
    std::memcpy(p, &head_, sizeof head_);
    head_ = p;
  }

 private:
  std::unique_ptr<char[]> memory_;
  void* head_ = nullptr;
  std::size_t fresh_ = 0;
  std::size_t n_;
};

/// A stack of 32-bit indices beside the blocks.
template <std::size_t kBytes>
class IndexStack {
 public:
  static constexpr const char* kName = "limit:index_stack";
  explicit IndexStack(std::size_t n)
      : memory_(new char[n * kBytes]), free_(new std::uint32_t[n]), n_(n) {}
  void* allocate() noexcept {
    std::size_t i;
    if (top_ != 0) {
      i = free_[--top_];
    } else {
      if (fresh_ == n_) return nullptr;
      i = fresh_++;
    }
    return memory_.get() + i * kBytes;
  }
  void deallocate(void* p) noexcept {
    free_[top_++] = static_cast<std::uint32_t>(
        static_cast<std::size_t>(static_cast<char*>(p) - memory_.get()) / kBytes);
  }

 private:
  std::unique_ptr<char[]> memory_;
  std::unique_ptr<std::uint32_t[]> free_;
  std::size_t top_ = 0;
  std::size_t fresh_ = 0;
  std::size_t n_;
};

// --- what programs use ---------------------------------------------------------------------------

template <std::size_t kBytes>
class NewDelete {
 public:
  static constexpr const char* kName = "new_delete";
  explicit NewDelete(std::size_t) {}
  void* allocate() { return ::operator new(kBytes); }
  void deallocate(void* p) noexcept { ::operator delete(p, kBytes); }
};

template <std::size_t kBytes>
class BoostPool {
 public:
  static constexpr const char* kName = "boost_pool";
  explicit BoostPool(std::size_t n) : pool_(kBytes, n) {}
  void* allocate() { return pool_.malloc(); }
  void deallocate(void* p) { pool_.free(p); }

 private:
  boost::pool<> pool_;
};

/// The free list that boost::lockfree's containers use, in its form for several threads.
template <std::size_t kBytes>
class BoostLockfree {
  struct alignas(kBytes % alignof(std::max_align_t) == 0 ? alignof(std::max_align_t)
                                                         : alignof(void*)) Block {
    unsigned char bytes[kBytes];
  };
  struct Freelist : boost::lockfree::detail::freelist_stack<Block> {
    using Base = boost::lockfree::detail::freelist_stack<Block>;
    explicit Freelist(std::size_t n) : Base(std::allocator<Block>(), n) {}
    using Base::allocate;
    using Base::deallocate;
  };

 public:
  static constexpr const char* kName = "boost_lockfree";
  explicit BoostLockfree(std::size_t n) : pool_(n) {}
  void* allocate() { return pool_.template allocate<true, true>(); }
  void deallocate(void* p) { pool_.template deallocate<true>(static_cast<Block*>(p)); }

 private:
  Freelist pool_;
};

template <std::size_t kBytes>
class PmrPool {
 public:
  static constexpr const char* kName = "pmr_unsynchronized";
  explicit PmrPool(std::size_t) {}
  void* allocate() { return pool_.allocate(kBytes); }
  void deallocate(void* p) { pool_.deallocate(p, kBytes); }

 private:
  std::pmr::unsynchronized_pool_resource pool_;
};

template <std::size_t kBytes>
class PmrSynchronizedPool {
 public:
  static constexpr const char* kName = "pmr_synchronized";
  explicit PmrSynchronizedPool(std::size_t) {}
  void* allocate() { return pool_.allocate(kBytes); }
  void deallocate(void* p) { pool_.deallocate(p, kBytes); }

 private:
  std::pmr::synchronized_pool_resource pool_;
};

// --- ours ----------------------------------------------------------------------------------------

template <std::size_t kBytes, typename Blocks>
class BlocksInBuffer {
 public:
  explicit BlocksInBuffer(std::size_t n)
      : bytes_(Blocks::buffer_bytes(kBytes, n)),
        buffer_(new char[bytes_]),
        blocks_(buffer_.get(), bytes_, kBytes, alignof(void*)) {}
  void* allocate() noexcept { return blocks_.allocate(); }
  void deallocate(void* p) noexcept { blocks_.deallocate(p); }

 private:
  std::size_t bytes_;
  std::unique_ptr<char[]> buffer_;
  Blocks blocks_;
};
template <std::size_t kBytes>
struct Checked : BlocksInBuffer<kBytes, BlockAllocator> {
  static constexpr const char* kName = "BlockAllocator";
  using BlocksInBuffer<kBytes, BlockAllocator>::BlocksInBuffer;
};
template <std::size_t kBytes>
struct Unchecked : BlocksInBuffer<kBytes, UncheckedBlockAllocator> {
  static constexpr const char* kName = "UncheckedBlockAllocator";
  using BlocksInBuffer<kBytes, UncheckedBlockAllocator>::BlocksInBuffer;
};

/// Takes page after page from an arena with as many pages as n blocks need.
template <std::size_t kBytes>
class Growing {
 public:
  static constexpr const char* kName = "GrowingBlockAllocator";
  explicit Growing(std::size_t n) : arena_((n * kBytes * 2 / kPage + 1) * kPage, kPage) {}
  void* allocate() noexcept { return blocks_.allocate(); }
  void deallocate(void* p) noexcept { blocks_.deallocate(p); }

 private:
  static constexpr std::size_t kPage = 64 << 10;
  PageArena arena_;
  GrowingBlockAllocator blocks_{arena_, kBytes};
};

/// From here on the compiler can assume nothing about the object.
template <typename T>
void hide(T& object) {
  auto* address = &object;
  benchmark::DoNotOptimize(address);
  benchmark::ClobberMemory();
}

}  // namespace strata::bench
