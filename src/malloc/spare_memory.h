#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// A little memory for calls that must not wait for a lock: those of a signal handler that
/// interrupted the malloc while it held one, and all that still comes after a fatal sentence was
/// said with a lock held.
///
///   | header block | header block | free …        kBytes, never touched before they are used
///
/// Blocks are cut off one after the other. The last one can be freed by itself; when all are
/// back, everything is free again, so handlers that free what they take can go on for ever.
/// \threads  Any number at once, signal handlers included: lock-free.
class SpareMemory {
 public:
  // Chosen: enough for a crash handler that resolves and demangles a few hundred frames; address
  // space only, until it is needed.
  static constexpr std::size_t kBytes = std::size_t{1} << 20;

  constexpr SpareMemory() noexcept = default;
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  /// \param alignment  a power of two
  /// \returns  A block, contents unspecified; nullptr if there is no room.
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept;

  bool owns(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(bytes_) < kBytes;
  }

  /// Takes back a block.
  /// \pre      owns(p)
  /// \errors   A pointer that is no live block is fatal.
  void deallocate(void* p) noexcept;
  /// \errors  The same; `action` is the sentence's first word.
  std::size_t usable_bytes(const void* p, const char* action) const noexcept;

 private:
  static constexpr std::size_t kGrain = 16;

  /// Stands in front of its block. Alone it tells a live block from any other address.
  struct Header {
    const void* block;  // nullptr: freed
    std::size_t bytes;
  };
  static_assert(sizeof(Header) == kGrain, "blocks stay aligned after their headers");

  /// Live blocks in the upper half, bytes in use in the lower one.
  static constexpr unsigned kLiveShift = 32;
  static constexpr std::uint64_t kUsedMask = (std::uint64_t{1} << kLiveShift) - 1;

  Header& header_of(const void* p, const char* action) const noexcept;

  // acquire when bytes are taken, release when they come back: the next owner sees that their
  // last owner is done.
  std::atomic<std::uint64_t> state_{0};
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a handler may count");
  alignas(64) unsigned char bytes_[kBytes] = {};
};

}  // namespace strata
