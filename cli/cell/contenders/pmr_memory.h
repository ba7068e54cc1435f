#pragma once

#include <memory_resource>
#include <new>
#include <type_traits>

#include "contenders/needs.h"

namespace strata::cell {

/// The standard library's pool resources over the malloc of the process, with default options.
template <typename Resource>
class PmrMemory {
  static constexpr bool kIsSynchronized =
      std::is_same_v<Resource, std::pmr::synchronized_pool_resource>;

 public:
  static constexpr const char* kName = kIsSynchronized ? "pmr-synchronized" : "pmr-pool";
  static constexpr const char* kSentence =
      kIsSynchronized ? "std::pmr::synchronized_pool_resource"
                      : "std::pmr::unsynchronized_pool_resource, for one thread";

  static const char* why_unfit(const Needs& needs) {
    return kIsSynchronized ? nullptr : needs.why_not_one_thread();
  }

  explicit PmrMemory(const Needs&) {}

  void* allocate(std::size_t bytes) {
    try {
      return resource_.allocate(bytes);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
  void deallocate(void* p, std::size_t bytes) { resource_.deallocate(p, bytes); }

 private:
  Resource resource_{std::pmr::new_delete_resource()};
};

}  // namespace strata::cell
