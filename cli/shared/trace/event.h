#pragma once

#include <cstdint>

/// \file  The content of a trace: calls of an allocator in order.

namespace strata::trace {

enum class Operation : std::uint8_t {
  kMalloc,   ///< malloc
  kCalloc,   ///< calloc; the size is the product
  kAligned,  ///< aligned_alloc, posix_memalign, memalign, valloc, pvalloc
  kNew,      ///< operator new in all its forms
  kFree,     ///< free in all its forms
  kDelete,   ///< operator delete in all its forms
  kRealloc,  ///< realloc, reallocarray; ends one object and begins another, perhaps in its place
  kLost,     ///< the end of the object was not recorded: its address was allocated again
};
constexpr unsigned kOperations = 8;

constexpr bool begins_object(Operation operation) noexcept {
  return operation <= Operation::kNew || operation == Operation::kRealloc;
}
constexpr bool ends_object(Operation operation) noexcept { return operation >= Operation::kFree; }

/// Objects are numbered from 0 in the order of their allocation in the trace.
constexpr std::uint64_t kNoObject = ~std::uint64_t{0};
/// An object allocated before the recording began, or whose allocation was dropped.
constexpr std::uint64_t kUnknownObject = kNoObject - 1;

/// A call. The events of a trace are totally ordered: no object ends before it begins, and the
/// calls of each thread are in program order.
///   begins_object   object is the next number, or kNoObject if the call failed
///   ends_object     ended is a live object or kUnknownObject; kNoObject only for a realloc that
///                   failed or was given nullptr
/// free(nullptr) is not recorded; realloc(p, 0) is recorded as a free if it frees.
struct Event {
  Operation operation = Operation::kMalloc;
  std::uint32_t thread = 0;   ///< numbered from 0 in order of appearance
  std::uint32_t stack = 0;    ///< number of a StackNode; 0 if no stack was taken
  std::uint64_t time_ns = 0;  ///< since the recording began; never goes back
  std::uint64_t object = kNoObject;
  std::uint64_t ended = kNoObject;
  std::uint64_t size_bytes = 0;  ///< as requested
  std::uint64_t alignment = 0;   ///< as requested, a power of two; 0: malloc's default

  friend bool operator==(const Event&, const Event&) = default;
};

/// A node in the tree of call stacks: a return address, and the node of its caller. Node 0 is the
/// root and not a frame; a child's number is larger than its parent's.
struct StackNode {
  std::uint32_t parent = 0;
  std::uint64_t return_address = 0;

  friend bool operator==(const StackNode&, const StackNode&) = default;
};

}  // namespace strata::trace
