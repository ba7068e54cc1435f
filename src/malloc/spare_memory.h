#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// A little memory of our own variables, for calls that the heap does not serve: those that must
/// not wait for a lock, in a signal handler that interrupted the malloc while it held one, and all
/// that still comes after a fatal sentence was said with a lock held; the first ones of a
/// process, which may need no heap; and all, where a heap cannot begin.
///
///   | header block | header block | free …        kBytes, never touched before they are used
///
/// Blocks are cut off one after the other. The last one can be freed by itself; when all are
/// back, everything is free again, so handlers that free what they take can go on for ever.
/// \threads  Any number at once, signal handlers included: lock-free.
class SpareMemory {
 public:
  // Chosen: what a process gets before its heap begins. Most small programs need no more: `ls`,
  // `sort` and `grep` take 80 to 150 KiB.
  static constexpr std::size_t kFirstBytes = std::size_t{256} << 10;
  // Chosen: enough for a crash handler that resolves and demangles a few hundred frames; address
  // space only, until it is needed.
  static constexpr std::size_t kBytes = kFirstBytes + (std::size_t{1} << 20);

  struct Block {
    void* address;  ///< nullptr: there is no room
    bool is_zero;   ///< never used before; else its contents are unspecified
  };

  constexpr SpareMemory() noexcept = default;
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  /// \param alignment  a power of two
  Block allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return allocate(bytes, alignment, kBytes);
  }
  /// The same, from the first kFirstBytes.
  Block allocate_first(std::size_t bytes, std::size_t alignment) noexcept {
    return allocate(bytes, alignment, kFirstBytes);
  }
  /// What is in use now is never used again, even when it comes back. It may live as long as the
  /// process; so the others can all be back without it.
  void set_apart() noexcept;

  bool owns(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(bytes_) < kBytes;
  }

  /// Takes back a block. The OS pages of a large one go back to the kernel.
  /// \pre      owns(p)
  /// \errors   A pointer that is no live block is fatal.
  void deallocate(void* p) noexcept;
  /// \errors  The same; `action` is the sentence's first word.
  std::size_t usable_bytes(const void* p, const char* action) const noexcept;

 private:
  static constexpr std::size_t kGrain = 16;
  // Chosen: such blocks are buffers, or what a program grows step by step; their pages are worth a
  // system call.
  static constexpr std::size_t kLargeBytes = std::size_t{16} << 10;

  /// Stands in front of its block. Alone it tells a live block from any other address: the mark is
  /// made of the address and the size, so that a write to either is seen.
  struct Header {
    std::uintptr_t mark;
    std::size_t bytes;

    /// Not the address alone where the size is 0: an empty std::string is that, and a 0.
    std::uintptr_t mark_of_live(std::uintptr_t block) const noexcept {
      return block + (bytes + 1) * 0x9e37'79b9'7f4a'7c15;  // odd
    }
    std::uintptr_t mark_of_freed(std::uintptr_t block) const noexcept {
      return mark_of_live(block) + 1;
    }
  };
  static_assert(sizeof(Header) == kGrain, "blocks stay aligned after their headers");

  struct State {
    std::uint64_t used : 21;     // bytes, from the first one on
    std::uint64_t touched : 21;  // the most that was ever used
    std::uint64_t live : 22;     // blocks
  };
  static_assert(kBytes < std::size_t{1} << 21);

  Block allocate(std::size_t bytes, std::size_t alignment, std::size_t limit) noexcept;
  Header& header_of(const void* p, const char* action) const noexcept;

  // acquire when bytes are taken, release when they come back: the next owner sees that their
  // last owner is done.
  std::atomic<State> state_{};
  static_assert(std::atomic<State>::is_always_lock_free, "a handler may count");
  // Bytes; relaxed: whoever sees the state that set_apart() released sees it.
  std::atomic<std::size_t> apart_{0};
  alignas(64) unsigned char bytes_[kBytes] = {};
};

}  // namespace strata
