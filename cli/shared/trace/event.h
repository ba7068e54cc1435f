#pragma once

#include <cstdint>

/// \file  What a trace tells: calls of an allocator, one after the other.

namespace strata::trace {

enum class Operation : std::uint8_t {
  kMalloc,   ///< malloc
  kCalloc,   ///< calloc; the size is the product
  kAligned,  ///< aligned_alloc, posix_memalign, memalign, valloc, pvalloc
  kNew,      ///< operator new in all its forms
  kFree,     ///< free in all its forms
  kDelete,   ///< operator delete in all its forms
  kRealloc,  ///< realloc, reallocarray; ends one object and begins another, perhaps in its place
  kLost,     ///< the object's end was not recorded: its address was handed out again
};
constexpr unsigned kOperations = 8;

constexpr bool begins_object(Operation operation) noexcept {
  return operation <= Operation::kNew || operation == Operation::kRealloc;
}
constexpr bool ends_object(Operation operation) noexcept { return operation >= Operation::kFree; }

/// Objects are numbered from 0 in the order in which a trace begins them.
constexpr std::uint64_t kNoObject = ~std::uint64_t{0};
/// An object that was live before the recording began, or whose beginning was dropped.
constexpr std::uint64_t kUnknownObject = kNoObject - 1;

/// A call. All calls of a trace stand in one order, in which nothing is ended before it began; the
/// calls of a thread stand in the thread's own order.
///   begins_object   object is the next number, or kNoObject where the call failed
///   ends_object     ended is a live object or kUnknownObject; kNoObject only for a realloc that
///                   failed or was given nullptr
/// free(nullptr) is not told; realloc(p, 0) is a free where it frees.
struct Event {
  Operation operation = Operation::kMalloc;
  std::uint32_t thread = 0;   ///< numbered from 0 as they were seen first
  std::uint32_t stack = 0;    ///< a StackNode's number, 0 where none was taken
  std::uint64_t time_ns = 0;  ///< since the recording began; never goes back
  std::uint64_t object = kNoObject;
  std::uint64_t ended = kNoObject;
  std::uint64_t size_bytes = 0;  ///< asked for
  std::uint64_t alignment = 0;   ///< asked for, a power of two; 0: what malloc gives

  friend bool operator==(const Event&, const Event&) = default;
};

/// A call stack is a path in a tree: this return address, called from the parent's. The root is
/// number 0 and no frame; children have larger numbers than their parents.
struct StackNode {
  std::uint32_t parent = 0;
  std::uint64_t return_address = 0;

  friend bool operator==(const StackNode&, const StackNode&) = default;
};

}  // namespace strata::trace
