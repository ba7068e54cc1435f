#pragma once

#include <boost/lockfree/detail/freelist.hpp>
#include <boost/pool/pool.hpp>
#include <cstddef>
#include <memory>

#include "contenders/needs.h"

namespace strata::cell {

/// A boost::pool, grown to what the load needs at the first allocation.
class BoostPoolMemory {
 public:
  static constexpr const char* kName = "boost-pool";
  static constexpr const char* kSentence = "boost::pool: blocks of one size, for one thread";

  static const char* why_unfit(const Needs& needs) { return needs.why_not_one_size_and_thread(); }

  explicit BoostPoolMemory(const Needs& needs) : pool_(needs.largest_bytes, needs.live_blocks) {}

  void* allocate(std::size_t) { return pool_.malloc(); }
  void deallocate(void* p, std::size_t) { pool_.free(p); }

 private:
  boost::pool<> pool_;
};

/// The free list that boost::lockfree's containers use, with 64-byte blocks. It never grows.
class BoostLockfreeMemory {
 public:
  static constexpr const char* kName = "boost-lockfree";
  static constexpr const char* kSentence =
      "boost::lockfree's free list: blocks of 64 bytes, lock-free";

  static const char* why_unfit(const Needs& needs) {
    const bool fits =
        needs.smallest_bytes == sizeof(Block64) && needs.largest_bytes == sizeof(Block64);
    return fits ? nullptr : "has blocks of 64 bytes";
  }

  explicit BoostLockfreeMemory(const Needs& needs) : pool_(needs.live_blocks) {}

  void* allocate(std::size_t) { return pool_.allocate<true, true>(); }
  void deallocate(void* p, std::size_t) { pool_.deallocate<true>(static_cast<Block64*>(p)); }

 private:
  struct alignas(64) Block64 {
    std::byte bytes[64];
  };
  using List = boost::lockfree::detail::freelist_stack<Block64>;
  struct Pool : List {
    explicit Pool(std::size_t blocks) : List(std::allocator<Block64>(), blocks) {}
    using List::allocate;
    using List::deallocate;
  };

  Pool pool_;
};

}  // namespace strata::cell
