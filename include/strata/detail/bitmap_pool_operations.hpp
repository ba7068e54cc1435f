#pragma once

#include <strata/bitmap_pool_cursor.hpp>
#include <strata/bitmap_pool_geometry.hpp>
#include <strata/detail/bitmap_tree.hpp>

#include <cstddef>
#include <cstdint>

namespace strata::detail::bases {  // apart from functions: see strata/allocator.hpp

/// The functions of every bitmap pool, wherever its bits and blocks lie. `Pool` derives from this
/// and provides privately: geometry(), nodes(), blocks(), process().
///
/// \threads  Any number at once, signal and interrupt handlers included, unless said otherwise.
///           Wait-free: BitmapPoolGeometry bounds the steps of each call, whatever other threads do
///           or stop doing. (Lock-free where an atomic instruction is itself a short loop of
///           load-linked and store-conditional, as on ARMv7.) In a library that dlopen() loaded, a
///           thread's first call without a cursor may call malloc, for thread-local memory: its
///           signal handlers must pass a cursor.
/// \errors   Exhaustion is nullptr. A wrong free returns false and changes nothing.
template <class Pool, class Policy>
class BitmapPoolOperations {
 public:
  /// Claims one block.
  /// \returns  block_bytes() bytes aligned to block_alignment(), contents unspecified; nullptr if
  ///           each block was taken, or just being freed, at some instant of this call. A block
  ///           whose deallocate() has returned is never overlooked.
  /// \cost     Usually one load and one read-modify-write, at most max_allocate_…() of
  ///           BitmapPoolGeometry; no system call. What the last owner did with the block happens
  ///           before.
  void* allocate() noexcept {
    auto&& cursor =
        Policy::Starts::cursor(self().nodes(), geometry().leaf_count(), self().process());
    return allocate(cursor);
  }

  /// The same with the caller's own cursor: one per thread, task or interrupt handler.
  void* allocate(BitmapPoolCursor& cursor) noexcept {
    const std::size_t index = tree().claim(cursor);
    return index == Tree::kNone ? nullptr : block(index);
  }

  /// allocate() for adapters: nullptr also if a block is too small or not aligned enough.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes <= block_bytes() && alignment <= block_alignment() ? allocate() : nullptr;
  }

  /// Frees a block.
  /// \returns  True if it is free now. False, with nothing changed, if `p` is not the address of a
  ///           block of this pool (foreign, inside a block, nullptr), or if the block was free: of
  ///           two threads that free the same block, one gets false.
  /// \cost     One read-modify-write, and above the leaves a load per level; a read-modify-write
  ///           more for each marker that it clears.
  bool deallocate(void* p) noexcept {
    const std::size_t index = release(p);
    if (index == Tree::kNone) return false;
    Policy::Starts::note_freed(self().nodes(), index >> geometry().leaf_shift);
    return true;
  }

  /// The same with the caller's own cursor: when its word is full, a search goes to this block's.
  /// \pre  the cursor does not lie in the block
  bool deallocate(void* p, BitmapPoolCursor& cursor) noexcept {
    const std::size_t index = release(p);
    if (index == Tree::kNone) return false;
    cursor.note_freed(index >> geometry().leaf_shift);
    return true;
  }

  /// Claims up to `count` blocks; many with one read-modify-write if they share a word.
  /// \returns  The number stored in `blocks`; fewer than `count` means what nullptr means.
  std::size_t allocate_batch(void** blocks, std::size_t count) noexcept {
    auto&& cursor =
        Policy::Starts::cursor(self().nodes(), geometry().leaf_count(), self().process());
    return allocate_batch(blocks, count, cursor);
  }
  std::size_t allocate_batch(void** blocks, std::size_t count, BitmapPoolCursor& cursor) noexcept {
    return tree().claim_many(cursor.leaf(), count,
                             [&](std::size_t index) noexcept { *blocks++ = block(index); });
  }

  /// Frees `count` blocks. Neighbours in the array that share a word take one step, so it is best
  /// to free a batch in the order in which it came.
  /// \returns  The number freed; the rest were no taken blocks of this pool.
  std::size_t deallocate_batch(void* const* blocks, std::size_t count) noexcept {
    std::size_t accepted = 0;
    std::size_t leaf = 0;
    BitWord mask = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = index_of(blocks[i]);
      if (index >= geometry().capacity) continue;
      const std::size_t at = index >> geometry().leaf_shift;
      const BitWord bit = BitWord{1} << (index & (geometry().bits_per_leaf() - 1));
      if (at != leaf) {
        accepted += popcount(tree().release_bits(leaf, mask));
        leaf = at;
        mask = 0;
      }
      mask |= bit;
    }
    return accepted + popcount(tree().release_bits(leaf, mask));
  }

  /// \returns  True if `p` is the address of a block of this pool, taken or free.
  /// \cost     One multiplication.
  bool owns(const void* p) const noexcept { return index_of(p) < geometry().capacity; }

  /// \returns  True if `p` is the address of a block that is taken at this instant.
  bool is_in_use(const void* p) const noexcept {
    const std::size_t index = index_of(p);
    if (index >= geometry().capacity) return false;
    const BitWord bits = tree().taken_bits(index >> geometry().leaf_shift);
    return ((bits >> (index & (geometry().bits_per_leaf() - 1))) & 1) != 0;
  }

  /// The block with this number, the same in every process; index < capacity().
  void* block(std::size_t index) const noexcept {
    return self().blocks() + index * geometry().stride;
  }
  /// \returns  The number of the block at `p`; capacity() or more if there is none.
  std::size_t index_of(const void* p) const noexcept {
    return geometry().divider.quotient(reinterpret_cast<std::uintptr_t>(p) -
                                       reinterpret_cast<std::uintptr_t>(self().blocks()));
  }

  /// Blocks taken: exact while no thread allocates or frees, otherwise a sum of words, each right
  /// when it was read.
  /// \cost  One load per leaf.
  std::size_t in_use() const noexcept {
    std::size_t sum = 0;
    for (std::size_t leaf = 0; leaf < geometry().leaf_count(); ++leaf) {
      sum += popcount(tree().taken_bits(leaf));
    }
    return sum;
  }
  std::size_t available() const noexcept { return capacity() - in_use(); }

  /// Calls visit(block) for the taken blocks in address order. `visit` may deallocate the block.
  /// Blocks that others take or free meanwhile may be visited or not.
  template <class Visit>
  void for_each_in_use(Visit&& visit) {
    for (std::size_t leaf = 0; leaf < geometry().leaf_count(); ++leaf) {
      for (BitWord bits = tree().taken_bits(leaf); bits != 0; bits &= bits - 1) {
        visit(block((leaf << geometry().leaf_shift) + count_trailing_zeros(bits)));
      }
    }
  }

  /// Frees the taken blocks for which is_orphan(block) is true, such as those of a process that was
  /// killed. The predicate must be false for blocks that others hold or are just getting.
  /// \returns  The number freed.
  template <class IsOrphan>
  std::size_t deallocate_if(IsOrphan&& is_orphan) {
    std::size_t count = 0;
    for_each_in_use([&](void* p) { count += is_orphan(p) && deallocate(p); });
    return count;
  }

  /// Repairs what a killed process may have left half done above the leaves. Optional: without it
  /// searches are right, only longer; and the block that the process was freeing may stay hidden
  /// until a neighbour is freed.
  /// \threads  Alone: no other thread may be in this pool.
  void repair() noexcept { tree().forget_markers(); }

  /// Checks the whole structure. For tests.
  /// \returns  nullptr, or a sentence that says what does not hold.
  /// \threads  Alone.
  const char* broken_invariant() const noexcept { return tree().broken_invariant(); }

  /// A cursor for the n-th thread, task or handler, such that the first few all differ.
  BitmapPoolCursor nth_cursor(std::uint32_t n) const noexcept {
    return BitmapPoolCursor::nth(n, geometry().leaf_count(), self().process());
  }

  constexpr std::size_t capacity() const noexcept { return geometry().capacity; }
  constexpr std::size_t block_bytes() const noexcept { return geometry().block_bytes; }
  constexpr std::size_t block_alignment() const noexcept { return geometry().alignment; }

 private:
  using Tree = BitmapTree<typename Policy::Steps>;

  constexpr const Pool& self() const noexcept { return static_cast<const Pool&>(*this); }
  constexpr const BitmapPoolGeometry& geometry() const noexcept { return self().geometry(); }
  Tree tree() const noexcept { return Tree(geometry(), self().nodes()); }
  /// \returns  The number of the block that is free now; kNone if there was none to free.
  std::size_t release(void* p) noexcept {
    const std::size_t index = index_of(p);
    return index < geometry().capacity && tree().release(index) ? index : Tree::kNone;
  }
};

}  // namespace strata::detail::bases
