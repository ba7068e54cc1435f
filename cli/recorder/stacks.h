#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/stack.h"
#include "recorder/spin_lock.h"
#include "shared/trace/event.h"

namespace strata::recorder {

/// The tree of all stacks seen. Each stack is a node, stored once: a return address below the node
/// of its callers. Nodes never change and are never freed, but begin_anew() hides older ones from
/// lookups. A hash table finds a node by its parent and address. A thread that finds none takes the
/// lock and searches again.
/// \threads  Any.
/// \cost     A cache miss per frame; a lock per new node.
class StackTree {
 public:
  static constexpr std::uint32_t kMostNodes = 1 << 22;
  static constexpr std::size_t kPlaces = std::size_t{2} * kMostNodes;
  static constexpr std::size_t kBytes =
      (kMostNodes + 1) * sizeof(trace::StackNode) + kPlaces * sizeof(std::uint32_t);

  /// Gives it kBytes of zeros, for ever. Call before node_of().
  void use(char* memory) noexcept;
  /// \returns  The node of a stack, given innermost frame first; 0 if the tree is full.
  std::uint32_t node_of(const std::uintptr_t* frames, std::size_t count) noexcept;

  /// Nodes are numbered from 1 to count(). acquire: they are complete. Whoever has a node's number
  /// finds it counted.
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  trace::StackNode node(std::uint32_t number) const noexcept { return nodes_[number]; }

  /// Hides the nodes so far from lookups, because their addresses may now stand for other code.
  void begin_anew() noexcept;
  /// The last node from before begin_anew(). Relaxed: a thread that unloads code does not run it
  /// meanwhile.
  std::uint32_t last_old() const noexcept { return last_old_.load(std::memory_order_relaxed); }
  SpinLock& lock() noexcept { return lock_; }  ///< for fork

 private:
  // Chosen: leaves room for new stacks in programs that load and unload code for ever.
  static constexpr std::uint32_t kMostOld = kMostNodes / 2;

  std::uint32_t child_of(std::uint32_t parent, std::uintptr_t address) noexcept;
  std::uint32_t find(std::uint32_t parent, std::uintptr_t address, std::size_t& at) const noexcept;

  SpinLock lock_;
  trace::StackNode* nodes_ = nullptr;
  /// release by the thread that adds a node, acquire by the one that looks it up: the node is
  /// complete, and counted.
  std::atomic<std::uint32_t>* places_ = nullptr;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> last_old_{0};
};

/// The recent stacks of a thread, each with the stack words that the walk read. If these words are
/// unchanged, so is the stack: a load and a comparison per frame, instead of some forty
/// instructions for a walk.
/// \threads  One.
class StackCache {
 public:
  std::uint32_t stack_at(const os::StackPlace& place, std::size_t most_frames,
                         StackTree& tree) noexcept;

 private:
  // Chosen: enough for a loop over different calls; 0.6 MiB, committed as it is touched.
  static constexpr std::size_t kEntries = 256;
  // Chosen: as with rules (os/stack.h), some hits are walked anew, because code can change.
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
