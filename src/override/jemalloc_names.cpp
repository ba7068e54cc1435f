// jemalloc's functions beside those of the C library (its manual's "non-standard API"). A program
// that is linked with its shared library may mix the two: redis 8 asks malloc_usable_size() about
// blocks of mallocx(). So where malloc is ours, these have to be, too. Arenas and caches that flags
// name play no part; mallctl() stays jemalloc's, and tells of its own, empty, heap.
// \source  jemalloc 5.3, jemalloc(3)

#include <strata/malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "malloc/process.h"

namespace {

constexpr int kLogOfAlignment = 0x3f;  // MALLOCX_LG_ALIGN, MALLOCX_ALIGN
constexpr int kZero = 0x40;            // MALLOCX_ZERO

constexpr std::size_t alignment_of(int flags) noexcept {
  return std::size_t{1} << (flags & kLogOfAlignment);
}

constexpr bool is_aligned_anyway(int flags) noexcept {
  return alignment_of(flags) <= alignof(std::max_align_t);
}

/// Clears a block behind its first bytes, to its end, however much longer it is than was asked for:
/// a later rallocx() with kZero keeps what lies before the old end.
void clear_behind(void* block, std::size_t bytes) noexcept {
  const std::size_t all = strata::usable_bytes(block);
  if (bytes < all) std::memset(static_cast<char*>(block) + bytes, 0, all - bytes);
}

}  // namespace

extern "C" {

STRATA_API void* mallocx(std::size_t bytes, int flags) noexcept {
  const bool is_cleared = (flags & kZero) != 0;
  if (is_aligned_anyway(flags) && !is_cleared) return strata::allocate(bytes);
  void* const block = is_aligned_anyway(flags)
                          ? strata::allocate_zeroed(1, bytes)
                          : strata::allocate_aligned(alignment_of(flags), bytes);
  if (is_cleared && block != nullptr) clear_behind(block, is_aligned_anyway(flags) ? bytes : 0);
  return block;
}

STRATA_API void* rallocx(void* block, std::size_t bytes, int flags) noexcept {
  const std::size_t kept = std::min(strata::usable_bytes(block), bytes);
  void* moved;
  if (is_aligned_anyway(flags)) {
    moved = strata::reallocate(block, bytes);
  } else {
    moved = strata::allocate_aligned(alignment_of(flags), bytes);
    if (moved != nullptr) {
      std::memcpy(moved, block, kept);
      strata::deallocate(block);
    }
  }
  if (moved != nullptr && (flags & kZero) != 0) clear_behind(moved, kept);
  return moved;
}

/// Blocks stay as long as they are: what the manual allows where one cannot grow in place.
STRATA_API std::size_t xallocx(void* block, std::size_t /*bytes*/, std::size_t /*extra*/,
                               int /*flags*/) noexcept {
  return strata::usable_bytes(block);
}

STRATA_API std::size_t sallocx(const void* block, int /*flags*/) noexcept {
  return strata::usable_bytes(block);
}

STRATA_API void dallocx(void* block, int /*flags*/) noexcept { strata::deallocate(block); }

/// The size may be any from the one asked for to the block's own, so it is not compared.
STRATA_API void sdallocx(void* block, std::size_t /*bytes*/, int /*flags*/) noexcept {
  strata::deallocate(block);
}

/// \returns  The least that mallocx() would give: its blocks are often longer, but not under full
///           checks.
STRATA_API std::size_t nallocx(std::size_t bytes, int /*flags*/) noexcept {
  return bytes <= PTRDIFF_MAX ? bytes : 0;
}

}  // extern "C"
