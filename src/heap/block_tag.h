#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// What a block of a coalescing heap is for. The first three are free and in the heap's bins; the
/// heap itself tells them apart only for the reclaimer.
enum class BlockState : std::uint32_t {
  kFree = 1,        ///< its pages may be dirty
  kAged = 2,        ///< free, and the reclaimer has met it once since it was last touched
  kReturned = 3,    ///< free, and the whole OS pages inside it were given back
  kLive = 4,        ///< the user's
  kCached = 5,      ///< in the small-block cache of its thread
  kTravelling = 6,  ///< freed by another thread, on its way to the owner
};

constexpr bool is_free(BlockState state) noexcept { return state <= BlockState::kReturned; }

/// The boundary tag: the 8 bytes in front of every block, live or free. It lies at an address
/// congruent to 8 modulo 16, so that the user's bytes behind it are aligned to 16.
///
///   bytes 0..3  seal: 3 bits of state, and 29 bits of a hash of address, size and state
///   bytes 4..7  size in granules of 16 bytes (tag included), shifted left by one;
///               bit 0 says that the block in front is free
///
/// The seal comes first because an overflow of the block in front meets it first: any change of its
/// bytes, or of the size, breaks it with all but one chance in 2^29. It guards against accidents,
/// not against an attacker, so it needs no secret.
///
/// Two words, not one, because two threads may write them at once: bit 0 of `size` belongs to
/// whoever holds the heap, `seal` to whoever holds the block. Both are read and written relaxed:
/// what orders a block's changes of hands is the lock, list or hand-over it travels through.
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
  void set_previous_is_free(bool value) noexcept {
    store(size, (load(size) & ~1u) | static_cast<std::uint32_t>(value));
  }

  /// Hash and state for a tag at this address. One multiplication: its upper bits depend on every
  /// bit of the address, the size and the state.
  std::uint32_t seal_for(std::uint32_t granules, BlockState state) const noexcept {
    const auto state_bits = static_cast<std::uint32_t>(state);
    const std::uint64_t input = (reinterpret_cast<std::uintptr_t>(this) | state_bits) ^
                                static_cast<std::uint64_t>(granules) << 32;
    return (static_cast<std::uint32_t>((input * kMultiplier) >> 32) & ~7u) | state_bits;
  }

  static BlockState state_in(std::uint32_t seal) noexcept {
    return static_cast<BlockState>(seal & 7u);
  }
  /// True if `seal` is what this tag must hold for that size, in whatever state it names.
  bool is_sealed(std::uint32_t seal_read, std::uint32_t granules) const noexcept {
    return seal_read == seal_for(granules, state_in(seal_read));
  }

 private:
  /// 2^64 divided by the golden ratio: odd, and its bits look random.
  static constexpr std::uint64_t kMultiplier = 0x9e3779b97f4a7c15u;

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
