#pragma once

#include <cstdint>

#include "base/metadata_arena.h"

namespace strata {

class HeapInstance;
class ThreadHeap;

/// Maps (this thread, an instance) to the thread's heap in that instance: a small array per thread,
/// indexed by the instance's slot. Slots are reused, so an entry also names the generation, which
/// never repeats: an entry of an instance that is gone cannot be taken for one of its successor.
///
/// The hot path only compares with the instance that the thread used last.
namespace heap_directory {

constexpr std::uint32_t kSlots = 64;

struct Entry {
  std::uint64_t generation;  // 0 never belongs to an instance
  ThreadHeap* heap;
};

/// The entry that the calling thread used last; no instance's before its first use.
constexpr Entry kNoEntry{UINT64_MAX, nullptr};
extern constinit thread_local Entry t_last;

struct Directory {
  Entry entries[kSlots];
};

/// Shared by all threads that have no heap yet; never written.
extern constinit Directory g_none;
extern constinit thread_local Directory* t_directory;

/// The calling thread's heap in the instance, nullptr if it has none yet.
inline ThreadHeap* find(std::uint32_t slot, std::uint64_t generation) noexcept {
  const Entry& entry = t_directory->entries[slot];
  if (entry.generation != generation) return nullptr;
  t_last = entry;
  return entry.heap;
}

/// Remembers the calling thread's heap, and hands it over when the thread ends.
/// \returns  False if there is no memory for it, or no way to learn of the thread's end.
bool remember(std::uint32_t slot, std::uint64_t generation, ThreadHeap* heap) noexcept;

/// How a registration ended.
///   kNoSlot  as many instances exist as can
///   kNoKey   the C library has no key left, by which threads hand over their heaps as they end
enum class Registered : std::uint8_t { kYes, kNoSlot, kNoKey };
Registered register_instance(HeapInstance& instance, std::uint32_t& slot,
                             std::uint64_t& generation) noexcept;

/// Waits for threads that are handing over a heap of the instance; from then on no thread touches
/// it.
/// \returns  False in the child of a fork, if the parent made it: nobody touches it there.
bool unregister_instance(std::uint32_t slot, std::uint64_t generation) noexcept;

/// The process's memory for directories, instances and heaps: recycled, never unmapped.
MetadataArena& metadata() noexcept;

}  // namespace heap_directory
}  // namespace strata
