#include "heap/heap_directory.h"

#include <atomic>
#include <new>

#include "base/lock.h"
#include "heap/heap_instance.h"
#include "os/helper_thread.h"
#include "os/page_source.h"
#include "os/process.h"
#include "os/symbol.h"
#include "os/threads.h"
#include "os/wait.h"

namespace strata::heap_directory {

constinit Directory g_none{};
constinit thread_local Directory* t_directory = &g_none;
constinit thread_local Entry t_last = kNoEntry;

namespace {

struct Slot {
  HeapInstance* instance = nullptr;
  std::uint64_t generation = 0;  // 0 while the instance ends: it is found no more
};

struct Registry {
  Lock lock{LockRank::kHeapRegistry};
  Slot slots[kSlots] STRATA_GUARDED_BY(lock);
  /// How many ending threads are handing over a heap of the slot's instance, which must not go away
  /// meanwhile. Raised under the lock, while the instance is found; lowered with release, which
  /// pairs with the acquire of the thread that ends the instance. Also the word on which that
  /// thread sleeps.
  std::atomic<std::uint32_t> leaving[kSlots] = {};
};

constinit Registry g_registry;
// Kept in the child of a fork: its thread still has the key, and entries of the parent's instances.
constinit std::uint64_t g_next_generation STRATA_GUARDED_BY(g_registry.lock) = 1;
constinit bool g_has_key STRATA_GUARDED_BY(g_registry.lock) = false;
constinit unsigned g_key = 0;  // written before the first instance exists, and read for instances

constinit MetadataArena g_metadata{os::kernel_pages()};

/// \returns  The instance of this entry, which now waits for end_leaving(); nullptr if it is gone.
HeapInstance* begin_leaving(std::uint32_t slot, std::uint64_t generation) noexcept {
  if (generation == 0) return nullptr;
  LockGuard guard(g_registry.lock);
  if (g_registry.slots[slot].generation != generation) return nullptr;
  g_registry.leaving[slot].fetch_add(1, std::memory_order_relaxed);
  return g_registry.slots[slot].instance;
}

void end_leaving(std::uint32_t slot) noexcept {
  std::atomic<std::uint32_t>& leaving = g_registry.leaving[slot];
  if (leaving.fetch_sub(1, std::memory_order_release) == 1) os::wake_all(os::futex_word(leaving));
}

void on_thread_exit(void* value) noexcept {
  auto* directory = static_cast<Directory*>(value);
  os::HelperThread::note_end();
  // From here on this thread has no heaps; a block that a later hook frees makes it begin anew, and
  // the hook runs again.
  t_directory = &g_none;
  t_last = kNoEntry;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    const Entry& entry = directory->entries[i];
    HeapInstance* instance = begin_leaving(i, entry.generation);
    if (instance == nullptr) continue;
    instance->abandon(*entry.heap);
    end_leaving(i);
  }
  g_metadata.deallocate(directory, sizeof(Directory));
}

/// In the child of a fork: the parent's other threads do not run here, and may have been in the
/// middle of anything. The child starts without instances, and without the memory of the parent's.
void begin_anew_in_child() noexcept {
  new (&g_registry) Registry;
  new (&g_metadata) MetadataArena(os::kernel_pages());
  os::HelperThread::reset_after_fork();
}

/// Registers the fork handlers before the program's own, which may make instances.
[[gnu::constructor(102)]] void take_part_in_forks() {
  os::register_fork_handlers(nullptr, nullptr, begin_anew_in_child);
}

/// Keeps this file loaded: threads that end later run on_thread_exit().
[[gnu::constructor]] void stay_loaded() { os::stay_loaded(); }

}  // namespace

MetadataArena& metadata() noexcept { return g_metadata; }

bool remember(std::uint32_t slot, std::uint64_t generation, ThreadHeap* heap) noexcept {
  if (t_directory == &g_none) {
    void* memory = g_metadata.allocate(sizeof(Directory));
    if (memory == nullptr) return false;
    if (!os::set_thread_value(g_key, memory)) {
      g_metadata.deallocate(memory, sizeof(Directory));
      return false;
    }
    t_directory = new (memory) Directory{};
  }
  t_directory->entries[slot] = t_last = {generation, heap};
  return true;
}

Registered register_instance(HeapInstance& instance, std::uint32_t& slot,
                             std::uint64_t& generation) noexcept {
  LockGuard guard(g_registry.lock);
  if (!g_has_key) g_has_key = os::create_thread_key(g_key, on_thread_exit);
  if (!g_has_key) return Registered::kNoKey;
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    if (g_registry.slots[i].instance != nullptr) continue;
    g_registry.slots[i] = {&instance, g_next_generation++};
    slot = i;
    generation = g_registry.slots[i].generation;
    return Registered::kYes;
  }
  return Registered::kNoSlot;
}

bool unregister_instance(std::uint32_t slot, std::uint64_t generation) noexcept {
  {
    LockGuard guard(g_registry.lock);
    if (g_registry.slots[slot].generation != generation) return false;
    g_registry.slots[slot].generation = 0;
  }
  const std::atomic<std::uint32_t>& leaving = g_registry.leaving[slot];
  while (const std::uint32_t count = leaving.load(std::memory_order_acquire)) {
    os::wait_on(os::futex_word(leaving), count);
  }
  LockGuard guard(g_registry.lock);
  g_registry.slots[slot] = {};
  return true;
}

}  // namespace strata::heap_directory
