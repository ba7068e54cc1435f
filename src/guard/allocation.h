#pragma once

#include <cstddef>
#include <cstdint>

#include "base/text_writer.h"
#include "size_class/size_class_map.h"

namespace strata {

/// What the program said when it asked for an object.
struct Allocation {
  enum class By : std::uint8_t { kMalloc, kNew, kNewArray };

  std::size_t bytes = 0;
  std::size_t alignment = 0;  ///< 0: none was asked for
  bool by_aligned_new = false;
  By by = By::kMalloc;

  /// The same without an alignment that every object has anyway.
  Allocation as_said() const noexcept {
    const bool is_plain = alignment <= SizeClassMap::kGrain && !by_aligned_new;
    return {bytes, is_plain ? 0 : alignment, by_aligned_new, by};
  }
};

/// What the program says when it frees an object.
struct FreeCall {
  enum class By : std::uint8_t {
    kFree,
    kDelete,
    kDeleteArray,
    kDeleteAny,  ///< one of the two; which is not known
  };
  static constexpr std::size_t kUnsaid = ~std::size_t{0};

  By by = By::kFree;
  std::size_t bytes = kUnsaid;
  std::size_t alignment = kUnsaid;
  /// What malloc made goes back through free, and what new made does not.
  bool keeps_to_its_kind = false;

  bool says_bytes() const noexcept { return bytes != kUnsaid; }
  /// The class that an allocation of what is said gets.
  /// \pre  says_bytes()
  unsigned size_class() const noexcept {
    return alignment == kUnsaid || alignment == 0
               ? SizeClassMap::class_of(bytes)
               : SizeClassMap::class_of_aligned(bytes, alignment);
  }
};

/// Whether a call contradicts the allocation; if so, writes the sentence that says how.
///   size       every size that is said is the one that was asked for
///   alignment  what aligned new made goes back through aligned delete, with the same alignment,
///              and nothing goes back with an alignment that was not asked for
///   operator   what new made goes back through delete, what new[] made through delete[]
/// malloc and new are told apart only if the call keeps to its kind: a C++ runtime that was linked
/// statically makes one of the other, and a library may hand its objects to a program that has the
/// other runtime.
bool contradicts(const FreeCall& call, const Allocation& allocation, const void* p,
                 TextWriter& sentence) noexcept;

}  // namespace strata
