#pragma once

#include <strata/object_pool.hpp>

#include <cstddef>

#include "contenders/needs.h"

namespace strata::cell {

/// An ObjectPool of 64-byte objects with an empty constructor, so that only the pool is measured.
/// It has as many slots as the load needs, from the malloc of the process.
class ObjectPoolMemory {
 public:
  static constexpr const char* kName = "object-pool";
  static constexpr const char* kSentence =
      "strata::ObjectPool: typed objects of 64 bytes, for one thread";

  static const char* why_unfit(const Needs& needs) {
    if (needs.smallest_bytes != sizeof(Object) || needs.largest_bytes != sizeof(Object)) {
      return "has objects of 64 bytes";
    }
    return needs.why_not_one_thread();
  }

  explicit ObjectPoolMemory(const Needs& needs) : pool_(needs.live_blocks) {}

  void* allocate(std::size_t) noexcept { return pool_.create(); }
  void deallocate(void* p, std::size_t) noexcept { pool_.destroy(static_cast<Object*>(p)); }

 private:
  struct alignas(16) Object {
    Object() noexcept {}  // leaves the bytes as they are
    std::byte bytes[64];
  };

  ObjectPool<Object, Checks::kAlways, FreeSlots::kUntouched> pool_;
};

}  // namespace strata::cell
