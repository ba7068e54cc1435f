#include "recorder/stacks.h"

#include <algorithm>
#include <mutex>

#include "recorder/system.h"

namespace strata::recorder {
namespace {

std::size_t hash(std::uint64_t a, std::uint64_t b) noexcept {
  return static_cast<std::size_t>(((a * 0x9e3779b97f4a7c15u) ^ b) * 0xd1342543de82ef95u >> 32);
}

/// Whether all words are unchanged. Each lies in the used part of the stack if the words before it
/// are unchanged.
__attribute__((no_sanitize("address", "thread"))) bool are_unchanged(
    const os::StackTrail::Word* words, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (*reinterpret_cast<const std::uintptr_t*>(words[i].address) != words[i].value) return false;
  }
  return true;
}

}  // namespace

void StackTree::use(char* memory) noexcept {
  nodes_ = reinterpret_cast<trace::StackNode*>(memory);
  places_ = reinterpret_cast<std::atomic<std::uint32_t>*>(nodes_ + kMostNodes + 1);
}

std::uint32_t StackTree::node_of(const std::uintptr_t* frames, std::size_t count) noexcept {
  std::uint32_t node = 0;
  for (std::size_t i = count; i-- > 0;) {
    node = child_of(node, frames[i]);
    if (node == 0) return 0;
  }
  return node;
}

/// \returns  The node, or 0 if absent; `at` is then the free slot for it.
std::uint32_t StackTree::find(std::uint32_t parent, std::uintptr_t address,
                              std::size_t& at) const noexcept {
  for (at = hash(parent, address) % kPlaces;; at = (at + 1) % kPlaces) {
    const std::uint32_t number = places_[at].load(std::memory_order_acquire);
    if (number == 0) return 0;
    if (nodes_[number].parent == parent && nodes_[number].return_address == address &&
        number > last_old()) {
      return number;
    }
  }
}

void StackTree::begin_anew() noexcept {
  const std::lock_guard guard(lock_);
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count <= kMostOld) last_old_.store(count, std::memory_order_relaxed);
}

std::uint32_t StackTree::child_of(std::uint32_t parent, std::uintptr_t address) noexcept {
  std::size_t at;
  if (const std::uint32_t found = find(parent, address, at)) return found;
  const std::lock_guard guard(lock_);
  if (const std::uint32_t found = find(parent, address, at)) return found;
  const std::uint32_t number = count_.load(std::memory_order_relaxed) + 1;
  if (number > kMostNodes) return 0;
  nodes_[number] = {parent, address};
  // Counted first: whoever finds it may name it in a record at once.
  count_.store(number, std::memory_order_release);
  places_[at].store(number, std::memory_order_release);
  return number;
}

std::uint32_t StackCache::stack_at(const os::StackPlace& place, std::size_t most_frames,
                                   StackTree& tree) noexcept {
  Entry& entry = entries_[hash(place.pc, place.sp) % kEntries];
  if (entry.pc == place.pc && entry.sp == place.sp &&
      (!entry.depends_on_fp || entry.fp == place.fp) && entry.node > tree.last_old() &&
      are_unchanged(entry.words, entry.count) && ++hits_ % kHitsPerWalk != 0) {
    return entry.node;
  }
  const std::size_t count = os::capture_stack_from(place, frames_, most_frames, trail_);
  const std::uint32_t node = tree.node_of(frames_, count);
  entry.pc = 0;
  if (!trail_.is_whole || node == 0) return node;
  entry.sp = place.sp;
  entry.fp = place.fp;
  entry.node = node;
  entry.count = static_cast<std::uint32_t>(trail_.count);
  entry.depends_on_fp = trail_.depends_on_fp;
  std::copy(trail_.words, trail_.words + trail_.count, entry.words);
  entry.pc = place.pc;
  return node;
}

}  // namespace strata::recorder
