#pragma once

#include <strata/detail/bits.hpp>
#include <strata/detail/cache_line.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

/// \file  Claims and releases bits in one word of an atomic bitmap. 0 is free and 1 is taken, so
/// that fresh zero memory is an all-free bitmap and needs no initialisation.
///
/// Each function has a bounded number of steps: none loops until it wins. Where a compare-exchange
/// is the fast path, it is tried once; single-bit operations follow, which cannot fail because of a
/// neighbour's bit. They take one instruction where the machine has one (x86-64 `lock bts`, AArch64
/// LSE `ldset`, RISC-V `amoor`). GCC 12 recognises exactly the form in set_bit() and clear_bit(),
/// one mask computed once; other forms silently become a compare-exchange loop, so a test reads the
/// object code. Clang 14 always emits that loop: lock-free, not wait-free.

namespace strata::detail {

/// The widest word that every supported machine changes atomically without a lock.
using BitWord = std::uintptr_t;
static_assert(std::atomic<BitWord>::is_always_lock_free,
              "a bitmap word must be atomic without a hidden lock");

/// One word on its own cache line: neighbours in an array never wait for each other.
struct alignas(kCacheLineBytes) BitmapNode {
  std::atomic<BitWord> word{0};
};
static_assert(sizeof(BitmapNode) == kCacheLineBytes, "nodes are one cache line apart");

/// A policy that counts steps: one call per load and per read-modify-write. This one counts
/// nothing.
struct UncountedSteps {
  static constexpr void load() noexcept {}
  static constexpr void rmw() noexcept {}
};

inline constexpr unsigned kNoBit = kBitsOf<BitWord>;

template <class Steps>
BitWord load_word(const std::atomic<BitWord>& word, std::memory_order order) noexcept {
  Steps::load();
  return word.load(order);
}

/// \returns  True if this call changed the bit from 0 to 1.
/// \cost     One read-modify-write.
template <class Steps>
bool set_bit(std::atomic<BitWord>& word, unsigned bit, std::memory_order order) noexcept {
  Steps::rmw();
  const BitWord mask = BitWord{1} << (bit & (kBitsOf<BitWord> - 1));
  return (word.fetch_or(mask, order) & mask) == 0;
}

/// \returns  True if this call changed the bit from 1 to 0.
/// \cost     One read-modify-write.
template <class Steps>
bool clear_bit(std::atomic<BitWord>& word, unsigned bit, std::memory_order order) noexcept {
  Steps::rmw();
  const BitWord mask = BitWord{1} << (bit & (kBitsOf<BitWord> - 1));
  return (word.fetch_and(~mask, order) & mask) != 0;
}

/// The rest of claim_one() after a lost race: tries the bits of `free` one by one. Separate, so
/// that the common case is a few instructions wherever it is inlined.
template <class Steps>
#if defined(__GNUC__)
[[gnu::noinline]]
#endif
unsigned
claim_one_of(std::atomic<BitWord>& word, BitWord free) noexcept {
  while (free != 0) {
    const unsigned bit = count_trailing_zeros(free);
    if (set_bit<Steps>(word, bit, std::memory_order_acquire)) return bit;
    // Candidates only become fewer, so this ends; a bit that leaves was seen taken.
    free &= free - 1;
    free &= ~load_word<Steps>(word, std::memory_order_relaxed);
  }
  return kNoBit;
}

/// Claims one free bit of `usable`.
/// \returns  The bit, or kNoBit if each usable bit was seen taken at some instant of this call.
///           `lost_race` becomes true if another thread changed the word meanwhile.
/// \cost     At most 1 + u read-modify-writes and as many loads for u usable bits; usually one of
///           each: the compare-exchange is a quarter cheaper than `lock bts` if no one interferes.
template <class Steps>
unsigned claim_one(std::atomic<BitWord>& word, BitWord usable, bool& lost_race) noexcept {
  BitWord taken = load_word<Steps>(word, std::memory_order_relaxed);
  const BitWord free = usable & ~taken;
  if (free == 0) return kNoBit;
  const unsigned bit = count_trailing_zeros(free);
  Steps::rmw();
  // acquire pairs with the release in the clear_bit or clear_bits that freed the bit: what the last
  // owner wrote into the block happened before.
  if (word.compare_exchange_strong(taken, taken | (BitWord{1} << bit), std::memory_order_acquire,
                                   std::memory_order_relaxed)) {
    return bit;
  }
  lost_race = true;
  return claim_one_of<Steps>(word, free & ~taken);
}

/// Claims up to `count` free bits of `usable`, count > 0.
/// \returns  The bits claimed. If fewer than `count`, each other usable bit was seen taken at some
///           instant of this call.
/// \cost     At most one load and 1 + u read-modify-writes; usually one of each.
template <class Steps>
BitWord claim_bits(std::atomic<BitWord>& word, BitWord usable, std::size_t count) noexcept {
  BitWord taken = load_word<Steps>(word, std::memory_order_relaxed);
  BitWord free = usable & ~taken;
  if (free == 0) return 0;
  BitWord rest = free;
  for (std::size_t i = 0; i < count && rest != 0; ++i) rest &= rest - 1;
  const BitWord wanted = free & ~rest;
  Steps::rmw();
  if (word.compare_exchange_strong(taken, taken | wanted, std::memory_order_acquire,
                                   std::memory_order_relaxed)) {
    return wanted;
  }
  BitWord mine = 0;
  free &= ~taken;
  for (std::size_t won = 0; won < count && free != 0; free &= free - 1) {
    const unsigned bit = count_trailing_zeros(free);
    if (set_bit<Steps>(word, bit, std::memory_order_acquire)) {
      mine |= BitWord{1} << bit;
      ++won;
    }
  }
  return mine;
}

/// Releases the bits of `mask`.
/// \returns  Those that this call changed from 1 to 0; the others were free already.
/// \cost     At most one load and 1 + m read-modify-writes for m bits in `mask`; usually one of
///           each.
template <class Steps>
BitWord clear_bits(std::atomic<BitWord>& word, BitWord mask) noexcept {
  if (mask == 0) return 0;
  // seq_cst, as in BitmapTree::release(): more than release, because of the markers above a leaf.
  BitWord taken = load_word<Steps>(word, std::memory_order_relaxed);
  if ((taken & mask) == mask) {
    Steps::rmw();
    if (word.compare_exchange_strong(taken, taken & ~mask, std::memory_order_seq_cst,
                                     std::memory_order_relaxed)) {
      return mask;
    }
  }
  BitWord cleared = 0;
  for (BitWord rest = mask; rest != 0; rest &= rest - 1) {
    const unsigned bit = count_trailing_zeros(rest);
    if (clear_bit<Steps>(word, bit, std::memory_order_seq_cst)) cleared |= BitWord{1} << bit;
  }
  return cleared;
}

}  // namespace strata::detail
