#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/stack.h"
#include "recorder/spin_lock.h"
#include "shared/trace/event.h"

namespace strata::recorder {

/// The tree of all stacks that were met: each is a node, each node is stored once.
/// Nodes never change and never go, but those of before begin_anew() are not met again. A table
/// finds a node by its parent and its address; a thread that finds none takes the lock and looks
/// again.
/// \threads  Any.
/// \cost     A miss of the cache for each frame; a lock for each new node.
class StackTree {
 public:
  static constexpr std::uint32_t kMostNodes = 1 << 22;

  /// \returns  The node of a stack, its frames innermost first; 0 if the tree is full.
  std::uint32_t node_of(const std::uintptr_t* frames, std::size_t count) noexcept;

  /// Nodes are numbered from 1 to this. acquire: they are whole.
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  trace::StackNode node(std::uint32_t number) const noexcept { return nodes_[number]; }

  /// From here on an address may stand for other code than before: stacks are nodes of their own
  /// again.
  void begin_anew() noexcept;
  /// Nodes up to this one are from before; relaxed: who unloads code runs none of it meanwhile.
  std::uint32_t last_old() const noexcept { return last_old_.load(std::memory_order_relaxed); }
  SpinLock& lock() noexcept { return lock_; }  ///< for fork

 private:
  static constexpr std::size_t kPlaces = std::size_t{2} * kMostNodes;
  // Chosen: programs that load and unload for ever have room for new stacks.
  static constexpr std::uint32_t kMostOld = kMostNodes / 2;

  bool prepare() noexcept;
  std::uint32_t child_of(std::uint32_t parent, std::uintptr_t address) noexcept;
  std::uint32_t find(std::uint32_t parent, std::uintptr_t address, std::size_t& at) const noexcept;

  SpinLock lock_;
  trace::StackNode* nodes_ = nullptr;  ///< reserved for all
  /// release by who adds a node, acquire by who looks: the node is whole.
  std::atomic<std::uint32_t>* places_ = nullptr;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> last_old_{0};
  std::atomic<bool> is_prepared_{false};
};

/// The stacks that a thread took lately, each with what was read to take it. Where the same words
/// still hold what they held, the stack is the same: a word of memory and a comparison for each
/// frame, where walking would cost some forty instructions.
/// \threads  One.
class StackCache {
 public:
  std::uint32_t stack_at(const os::StackPlace& place, std::size_t most_frames,
                         StackTree& tree) noexcept;

 private:
  // Chosen: what a loop over different calls needs; 0.6 MiB, touched as it is used.
  static constexpr std::size_t kEntries = 256;
  // Chosen: as with rules (os/stack.h), some stacks are taken anew all the same: code changes.
  static constexpr std::uint32_t kHitsPerWalk = 1024;

  struct Entry {
    std::uintptr_t pc = 0;
    std::uintptr_t sp = 0;
    std::uintptr_t fp = 0;
    std::uint32_t node = 0;
    std::uint32_t count = 0;
    bool depends_on_fp = false;
    os::StackTrail::Word words[os::StackTrail::kMostWords];
  };

  Entry entries_[kEntries];
  std::uint32_t hits_ = 0;
  std::uintptr_t frames_[128];
  os::StackTrail trail_;
};

}  // namespace strata::recorder
