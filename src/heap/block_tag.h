#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {

/// The state of a block of a coalescing heap. The heap itself distinguishes the three free states
/// only for the reclaimer, and the three others only for the threads around it.
enum class BlockState : std::uint32_t {
  kLive = 1,         ///< the user's
  kCached = 2,       ///< in the small-block cache of its thread
  kTravelling = 3,   ///< freed by another thread, on its way to the owner
  kFree = 4,         ///< in the heap's bins; its pages may be dirty
  kAged = 5,         ///< free, and the reclaimer has seen it once since it was last touched
  kDecommitted = 6,  ///< free, and the whole OS pages inside it were decommitted
};

constexpr bool is_state(BlockState state) noexcept { return state <= BlockState::kDecommitted; }
constexpr bool is_free(BlockState state) noexcept {
  constexpr auto kFirst = static_cast<std::uint32_t>(BlockState::kFree);
  constexpr auto kLast = static_cast<std::uint32_t>(BlockState::kDecommitted);
  return static_cast<std::uint32_t>(state) - kFirst <= kLast - kFirst;
}

/// The boundary tag: the 8 bytes in front of every block, live or free. It lies at an address
/// congruent to 8 modulo 16, so that the user's bytes after it are aligned to 16.
///
///   bytes 0..3  seal: a hash of the block's address and size, with the state xored into its
///               upper 3 bits
///   bytes 4..7  size in granules of 16 bytes (tag included), shifted left by one;
///               bit 0 says that the block in front is free
///
/// The seal comes first because an overflow of the block in front hits it first. Any change of its
/// lower bytes, or of the size, breaks it, and random bytes pass for a seal once in 2^29. It guards
/// against accidents, not against an attacker, so it needs no secret.
///
/// Two words, not one, because two threads may write them at once: bit 0 of `size` belongs to the
/// holder of the heap, `seal` to the holder of the block. Both are read and written relaxed: the
/// lock, list or hand-over through which a block changes hands orders them.
struct BlockTag {
  std::uint32_t seal;
  std::uint32_t size;

  static constexpr std::size_t kGranuleBytes = 16;
  static constexpr std::size_t kBytes = 8;

  static BlockTag* of(void* user) noexcept {
    return reinterpret_cast<BlockTag*>(static_cast<char*>(user) - kBytes);
  }
  static const BlockTag* of(const void* user) noexcept {
    return reinterpret_cast<const BlockTag*>(static_cast<const char*>(user) - kBytes);
  }

  std::uint32_t load_seal() const noexcept { return load(seal); }
  std::uint32_t load_size() const noexcept { return load(size); }

  void set(std::uint32_t granules, bool previous_is_free, BlockState state) noexcept {
    store(size, granules << 1 | static_cast<std::uint32_t>(previous_is_free));
    store(seal, seal_for(granules, state));
  }
  void set_state(std::uint32_t granules, BlockState state) noexcept {
    store(seal, seal_for(granules, state));
  }
  /// \returns  False, with nothing changed, if the tag does not say so.
  bool change_state(std::uint32_t granules, BlockState from, BlockState to) noexcept {
    const std::uint32_t seal_read = load(seal);
    if ((seal_read ^ hash(granules)) != static_cast<std::uint32_t>(from) << kStateShift)
        [[unlikely]]
      return false;
    const auto change = static_cast<std::uint32_t>(from) ^ static_cast<std::uint32_t>(to);
    store(seal, seal_read ^ change << kStateShift);
    return true;
  }
  void note_free_previous() noexcept { store(size, load(size) | 1u); }
  void note_live_previous() noexcept { store(size, load(size) & ~1u); }

  /// The seal for this size and state. Cheap, because every operation checks or writes three to
  /// five of them.
  std::uint32_t seal_for(std::uint32_t granules, BlockState state) const noexcept {
    return hash(granules) ^ static_cast<std::uint32_t>(state) << kStateShift;
  }

  /// The state that a seal names; not a valid one if the seal or the size was overwritten.
  BlockState state_in(std::uint32_t seal_read, std::uint32_t granules) const noexcept {
    const std::uint32_t word = seal_read ^ hash(granules);
    return static_cast<BlockState>(std::rotl(word, 32 - kStateShift));
  }

 private:
  static constexpr int kStateShift = 29;
  /// 2^32 divided by the golden ratio: odd, so that no two sizes share a hash.
  static constexpr std::uint32_t kMultiplier = 0x9e3779b1u;

  std::uint32_t hash(std::uint32_t granules) const noexcept {
    return granules * kMultiplier ^
           static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(this + 1));
  }

  static std::uint32_t load(const std::uint32_t& word) noexcept {
    return std::atomic_ref<std::uint32_t>(const_cast<std::uint32_t&>(word))
        .load(std::memory_order_relaxed);
  }
  static void store(std::uint32_t& word, std::uint32_t value) noexcept {
    std::atomic_ref<std::uint32_t>(word).store(value, std::memory_order_relaxed);
  }
};
static_assert(sizeof(BlockTag) == BlockTag::kBytes, "a tag is 8 bytes");

}  // namespace strata
