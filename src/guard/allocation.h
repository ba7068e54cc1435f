#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text_writer.h"
#include "size_class/size_class_map.h"

namespace strata {

/// A request for an object, as the program made it.
struct Allocation {
  enum class By : std::uint8_t { kMalloc, kNew, kNewArray };

  std::size_t bytes = 0;
  std::size_t alignment = 0;  ///< 0: none was asked for
  bool by_aligned_new = false;
  By by = By::kMalloc;

  /// The request without an alignment that every object has anyway.
  Allocation as_said() const noexcept {
    const bool is_plain = alignment <= SizeClassMap::kGrain && !by_aligned_new;
    return {bytes, is_plain ? 0 : alignment, by_aligned_new, by};
  }
};

/// What the program says as it frees an object.
struct FreeCall {
  enum class By : std::uint8_t {
    kFree,
    kDelete,
    kDeleteArray,
    kDeleteAny,  ///< one of the two; unknown which
  };
  static constexpr std::size_t kUnsaid = ~std::size_t{0};

  By by = By::kFree;
  std::size_t bytes = kUnsaid;
  std::size_t alignment = kUnsaid;
  /// Whether objects of malloc may go back only through free, and those of new not through it.
  bool keeps_to_its_kind = false;

  bool says_bytes() const noexcept { return bytes != kUnsaid; }
  /// The class that an allocation of this size and alignment gets.
  /// \pre  says_bytes()
  unsigned size_class() const noexcept {
    return alignment == kUnsaid || alignment == 0
               ? SizeClassMap::class_of(bytes)
               : SizeClassMap::class_of_aligned(bytes, alignment);
  }
};

/// Whether a call contradicts the allocation; if so, writes the sentence that says how.
///   size       a size that is given is the one that was asked for
///   alignment  objects of aligned new go back through aligned delete with the same alignment, and
///              no object goes back with an alignment that was not asked for
///   operator   objects of new go back through delete, those of new[] through delete[]
/// malloc and new are told apart only if the call keeps to its kind: a statically linked C++
/// runtime implements one with the other, and a library may hand its objects to a program with the
/// other runtime.
bool contradicts(const FreeCall& call, const Allocation& allocation, const void* p,
                 TextWriter& sentence) noexcept;

}  // namespace strata
