#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// A little memory among our own variables, for calls that the heap does not serve: a process's
/// first ones, since it may need no heap; those that must not wait for a lock (in a signal handler
/// that interrupted the malloc while it held one, and everything after a fatal error with a lock
/// held); and all calls, where the heap cannot start.
///
///   | header block | header block | free …        kBytes, never touched before they are used
///
/// Blocks are cut off one after the other. Only the last one can be freed by itself; when all are
/// back, everything is free again, so handlers that free what they take can go on for ever.
/// \threads  Any number at once, signal handlers included: lock-free.
class SpareMemory {
 public:
  // Chosen: what a process gets before its heap starts. Most small programs need no more: `ls`,
  // `sort` and `grep` take 80 to 150 KiB.
  static constexpr std::size_t kFirstBytes = std::size_t{256} << 10;
  // Chosen: enough for a crash handler that resolves and demangles a few hundred frames; only
  // address space, until it is used.
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
  /// Excludes what is in use now from any later use, even after it is freed. It may live as long as
  /// the process, and need not be free for the rest to be reset.
  void set_apart() noexcept;

  bool owns(const void* p) const noexcept {
    return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(bytes_) < kBytes;
  }

  /// Frees a block. The OS pages of a large one go back to the kernel.
  /// \pre      owns(p)
  /// \errors   A pointer that is no live block is fatal.
  void deallocate(void* p) noexcept;
  /// \errors  The same; `action` is the sentence's first word.
  std::size_t usable_bytes(const void* p, const char* action) const noexcept;

 private:
  static constexpr std::size_t kGrain = 16;
  // Chosen: blocks this large are buffers, or grow step by step; their pages are worth a system
  // call.
  static constexpr std::size_t kLargeBytes = std::size_t{16} << 10;

  /// Stands in front of its block, and alone tells a live block from any other address: the mark is
  /// computed from the address and the size, so that a write to either is detected.
  struct Header {
    std::uintptr_t mark;
    std::size_t bytes;

    /// Not just the address if the size is 0: an empty std::string looks like that, followed by a
    /// 0.
    std::uintptr_t mark_of_live(std::uintptr_t block) const noexcept {
      return block + (bytes + 1) * 0x9e37'79b9'7f4a'7c15;  // odd
    }
    std::uintptr_t mark_of_freed(std::uintptr_t block) const noexcept {
      return mark_of_live(block) + 1;
    }
  };
  static_assert(sizeof(Header) == kGrain, "blocks stay aligned after their headers");

  struct State {
    std::uint64_t used : 21;     // bytes, from the start
    std::uint64_t touched : 21;  // the most that was ever used
    std::uint64_t live : 22;     // blocks
  };
  static_assert(kBytes < std::size_t{1} << 21);

  Block allocate(std::size_t bytes, std::size_t alignment, std::size_t limit) noexcept;
  Header& header_of(const void* p, const char* action) const noexcept;

  // acquire when bytes are taken, release when they are freed: the next owner sees that their last
  // owner is done.
  std::atomic<State> state_{};
  static_assert(std::atomic<State>::is_always_lock_free, "a handler may count");
  // In bytes. relaxed: whoever sees the state that set_apart() released sees it.
  std::atomic<std::size_t> apart_{0};
  alignas(64) unsigned char bytes_[kBytes] = {};
};

}  // namespace strata
