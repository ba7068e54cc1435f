#pragma once

#include <strata/bitmap_pool_cursor.hpp>
#include <strata/bitmap_pool_geometry.hpp>
#include <strata/detail/atomic_bitmap.hpp>

#include <atomic>
#include <cstddef>

namespace strata::detail {

/// Claims and releases indices in a tree of atomic words (drawn at BitmapPoolGeometry). The leaves
/// are the truth; the levels above only let a search skip full ones. A view of nodes that it does
/// not own, made anew for each operation.
///
/// A word above the leaves:   | marking in progress (count) | full? (one bit per child) |
///
/// Marking a child full takes three steps, because a block may be freed meanwhile:
///   mark      bit := 1 and count += 1, in one compare-exchange, tried once: markers only save time
///   recheck   is the child still full? if not, bit := 0
///   done      count -= 1
/// Releasing a block clears its bit in the leaf and then, level by level, each marker above it that
/// it finds set.
///
/// Always: if a block is free, and the deallocate() that freed it has returned, then on each level
/// the marker above it is 0, or some thread is between mark and done in that word. For if some
/// thread M sets the marker after that deallocate() saw it as 0, M's recheck comes later still and
/// finds the child not full. (Mark before recheck, clear before look: all four are seq_cst, so the
/// two threads cannot both miss the other.) Hence
///
///   count == 0 and all bits set, in one load  =>  every block below was taken at that instant,
///                                                 or is just being freed
///
/// which is why a search may trust that word, and why nullptr is strict. While count != 0, a search
/// visits every child. A process that dies there leaves the count behind: slower, never wrong.
/// \source  Searching by summary words with a two-sided recheck: Linux's lib/sbitmap.c. The count
///          in the same word as the bits, which makes the summary exact without a lock, is our own.
template <class Steps>
class BitmapTree {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  BitmapTree(const BitmapPoolGeometry& geometry, BitmapNode* nodes) noexcept
      : geometry_(geometry), nodes_(nodes) {}

  /// Claims one index, searching first where the cursor points, then where it says that a block was
  /// freed. The next search begins where this one finds an index.
  /// \returns  The index; kNone if each block was taken at some instant of this call.
  /// \cost     Usually one load and one read-modify-write; at most geometry.max_allocate_…().
  std::size_t claim(BitmapPoolCursor& cursor) noexcept {
    const std::size_t leaf = cursor.leaf();
    const std::size_t home = leaf < geometry_.leaf_count() ? leaf : leaf % geometry_.leaf_count();
    bool lost_race = false;
    const unsigned bit =
        claim_one<Steps>(nodes_[home].word, geometry_.usable_bits(home), lost_race);
    if (bit == kNoBit) return claim_elsewhere(geometry_, nodes_, home, cursor);
    // A thread that lost a race shares this word with another; the next word may be free.
    if (lost_race) cursor.leaf() = leaf_after(home);
    return (home << geometry_.leaf_shift) + bit;
  }

  /// Claims up to `count` indices and passes them to `sink(index)`, leaf by leaf.
  /// \returns  Their number; below `count` only if each other block was taken at some instant.
  template <class Sink>
  std::size_t claim_many(std::size_t& leaf, std::size_t count, Sink&& sink) noexcept {
    if (count == 0) return 0;
    std::size_t claimed = 0;
    const std::size_t home = leaf % geometry_.leaf_count();
    search(home, [&](std::size_t at) noexcept {
      BitWord mine = claim_bits<Steps>(nodes_[at].word, geometry_.usable_bits(at), count - claimed);
      if (mine != 0) leaf = at;
      for (; mine != 0; mine &= mine - 1, ++claimed) {
        sink((at << geometry_.leaf_shift) + count_trailing_zeros(mine));
      }
      return claimed == count;
    });
    return claimed;
  }

  /// \returns  True if the index was taken and is free now; false if it was free.
  /// \cost     One read-modify-write and a load per level; one read-modify-write more for each
  ///           marker found set.
  bool release(std::size_t index) noexcept {
    const std::size_t leaf = index >> geometry_.leaf_shift;
    const unsigned bit = static_cast<unsigned>(index & (geometry_.bits_per_leaf() - 1));
    // release pairs with the acquire of the claim; seq_cst pairs with the recheck in mark_full.
    if (!clear_bit<Steps>(nodes_[leaf].word, bit, std::memory_order_seq_cst)) return false;
    unmark_above(leaf);
    return true;
  }

  /// The same for several bits of one leaf.
  /// \returns  The bits that were taken.
  BitWord release_bits(std::size_t leaf, BitWord mask) noexcept {
    const BitWord released = clear_bits<Steps>(nodes_[leaf].word, mask);
    if (released != 0) unmark_above(leaf);
    return released;
  }

  /// The bits of a leaf that are taken at this instant.
  BitWord taken_bits(std::size_t leaf) const noexcept {
    return load_word<Steps>(nodes_[leaf].word, std::memory_order_acquire) &
           geometry_.usable_bits(leaf);
  }

  /// Clears all markers and counts, as if no leaf were full. Only while no other thread is here.
  void forget_markers() noexcept {
    for (std::size_t i = geometry_.leaf_count(); i < geometry_.node_count; ++i) {
      nodes_[i].word.store(0, std::memory_order_relaxed);
    }
  }

  /// \returns  nullptr, or a sentence that says what does not hold. Only while no other thread is
  ///           here.
  const char* broken_invariant() const noexcept {
    for (std::size_t leaf = 0; leaf < geometry_.leaf_count(); ++leaf) {
      const BitWord taken = nodes_[leaf].word.load(std::memory_order_relaxed);
      if ((taken & ~geometry_.usable_bits(leaf)) != 0) return "a bit without a block is taken";
    }
    for (unsigned level = 1; level <= geometry_.levels; ++level) {
      for (std::size_t node = 0; node < geometry_.level_nodes[level]; ++node) {
        const BitWord value = node_at(level, node).load(std::memory_order_relaxed);
        if ((value >> kMarkers) != 0) return "a marking is in progress with nobody at work";
        if ((value & ~geometry_.child_bits(level, node)) != 0) return "a marker without a child";
        for (BitWord marks = value; marks != 0; marks &= marks - 1) {
          const std::size_t child =
              (node << BitmapPoolGeometry::kFanoutLog2) + count_trailing_zeros(marks);
          if (!is_full(level - 1, child)) return "a child marked full is not";
        }
      }
    }
    return nullptr;
  }

 private:
  static constexpr unsigned kMarkers = BitmapPoolGeometry::kFanout;  // width of the low half
  static constexpr BitWord kOneMarking = BitWord{1} << kMarkers;
  static constexpr BitWord kMarkerMask = kOneMarking - 1;

  std::atomic<BitWord>& node_at(unsigned level, std::size_t node) const noexcept {
    return nodes_[geometry_.level_first[level] + node].word;
  }

#if defined(__GNUC__)
  [[gnu::noinline]]
#endif
  static std::size_t
  claim_elsewhere(const BitmapPoolGeometry& geometry, BitmapNode* nodes, std::size_t home,
                  BitmapPoolCursor& cursor) noexcept {
    BitmapTree tree(geometry, nodes);
    std::size_t index = kNone;
    tree.search(tree.start_of_search(home, cursor), [&](std::size_t at) noexcept {
      bool lost_race = false;
      const unsigned bit = claim_one<Steps>(nodes[at].word, geometry.usable_bits(at), lost_race);
      if (bit == kNoBit) return false;
      index = (at << geometry.leaf_shift) + bit;
      cursor.leaf() = at;
      return true;
    });
    return index;
  }

  /// The leaf after `home` if none of it is taken, else the one in which the thread freed last:
  /// where most is taken, the next free bits are other threads', and two that take each other's
  /// write to the same words from then on.
  /// \cost  A load at most.
  std::size_t start_of_search(std::size_t home, BitmapPoolCursor& cursor) const noexcept {
    if (!cursor.has_freed()) return home;
    const std::size_t next = leaf_after(home);
    if (load_word<Steps>(nodes_[next].word, std::memory_order_relaxed) == 0) return next;
    // Any value is safe: another pool's, or one that a handler has taken meanwhile.
    return cursor.take_freed() % geometry_.leaf_count();
  }

  std::size_t leaf_after(std::size_t leaf) const noexcept {
    return leaf + 1 < geometry_.leaf_count() ? leaf + 1 : 0;
  }

  /// Calls take(leaf) for the leaves that may have a free bit, in tree order from `start`, wrapping
  /// around, each at most once, until it returns true.
  template <class Take>
  void search(std::size_t start, Take&& take) noexcept {
    const std::size_t tops = geometry_.top_nodes();
    std::size_t top = start >> (geometry_.levels * BitmapPoolGeometry::kFanoutLog2);
    for (std::size_t i = 0; i < tops; ++i) {
      // Small pools have no levels: a plain walk over the words.
      if (geometry_.levels == 0 ? take(top) : search_below(geometry_.levels, top, start, take)) {
        return;
      }
      if (++top == tops) top = 0;
    }
  }

  /// The same below one node, level > 0. Recurses as deep as the tree has levels, at most
  /// kMaxLevels frames; not inlined into itself, so that frames are small.
  template <class Take>
#if defined(__GNUC__)
  [[gnu::noinline]]
#endif
  bool
  search_below(unsigned level, std::size_t node, std::size_t start, Take& take) noexcept {
    const BitWord all = geometry_.child_bits(level, node);
    const BitWord value = load_word<Steps>(node_at(level, node), std::memory_order_acquire);
    if (value == all) return false;  // the exact answer: see above
    const BitWord open = value < kOneMarking ? all & ~value : all;
    // Children from the start's own on, then those before it.
    const unsigned first =
        static_cast<unsigned>((start >> ((level - 1) * BitmapPoolGeometry::kFanoutLog2)) &
                              (BitmapPoolGeometry::kFanout - 1));
    const BitWord before = low_bits<BitWord>(first);
    const BitWord parts[] = {open & ~before, open & before};
    for (BitWord part : parts) {
      for (; part != 0; part &= part - 1) {
        const unsigned child = count_trailing_zeros(part);
        const std::size_t below = (node << BitmapPoolGeometry::kFanoutLog2) + child;
        if (level == 1 ? take(below) : search_below(level - 1, below, start, take)) return true;
        mark_full(level, node, child);
      }
    }
    return false;
  }

  bool is_full(unsigned level, std::size_t node) const noexcept {
    const BitWord value = load_word<Steps>(node_at(level, node), std::memory_order_seq_cst);
    return value == (level == 0 ? geometry_.usable_bits(node) : geometry_.child_bits(level, node));
  }

  /// \cost  Two loads and three read-modify-writes at most.
  void mark_full(unsigned level, std::size_t node, unsigned child) noexcept {
    std::atomic<BitWord>& word = node_at(level, node);
    const BitWord mark = BitWord{1} << child;
    BitWord value = load_word<Steps>(word, std::memory_order_relaxed);
    if ((value & mark) != 0 || (value >> kMarkers) == kMarkerMask) return;
    Steps::rmw();
    if (!word.compare_exchange_strong(value, (value | mark) + kOneMarking,
                                      std::memory_order_seq_cst, std::memory_order_relaxed)) {
      return;  // another thread is at work in this word; the marker can wait
    }
    if (!is_full(level - 1, (node << BitmapPoolGeometry::kFanoutLog2) + child)) {
      clear_bit<Steps>(word, child, std::memory_order_seq_cst);
    }
    Steps::rmw();
    word.fetch_sub(kOneMarking, std::memory_order_release);  // pairs with the acquire in search
  }

  void unmark_above(std::size_t leaf) noexcept {
    std::size_t child = leaf;
    for (unsigned level = 1; level <= geometry_.levels; ++level) {
      const unsigned bit = static_cast<unsigned>(child & (BitmapPoolGeometry::kFanout - 1));
      child >>= BitmapPoolGeometry::kFanoutLog2;
      std::atomic<BitWord>& word = node_at(level, child);
      const BitWord value = load_word<Steps>(word, std::memory_order_seq_cst);
      if (((value >> bit) & 1) != 0) clear_bit<Steps>(word, bit, std::memory_order_seq_cst);
    }
  }

  const BitmapPoolGeometry& geometry_;
  BitmapNode* nodes_;
};

}  // namespace strata::detail
