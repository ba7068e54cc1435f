#include "heap/heap_directory.h"

#include <new>

#include "base/lock.h"
#include "heap/heap_instance.h"
#include "os/page_source.h"
#include "os/symbol.h"
#include "os/threads.h"

namespace strata::heap_directory {

constinit Directory g_none{};
constinit thread_local Directory* t_directory = &g_none;
constinit thread_local Entry t_last = kNoEntry;

namespace {

struct Slot {
  HeapInstance* instance = nullptr;
  std::uint64_t generation = 0;
};

/// Which instances exist. An ending thread holds the lock while it hands its heaps over, so that no
/// instance goes away under it.
struct Registry {
  Lock lock{LockRank::kHeapRegistry};
  Slot slots[kSlots] STRATA_GUARDED_BY(lock);
  std::uint64_t next_generation STRATA_GUARDED_BY(lock) = 1;
  bool has_key STRATA_GUARDED_BY(lock) = false;
  unsigned key = 0;  // written before the first instance exists, and read for instances alone
};

constinit Registry g_registry;
/// The base class is the kernel; one of our own can be constant-initialised.
class Pages final : public os::PageSource {};
constinit Pages g_pages;
constinit MetadataArena g_metadata{g_pages};

void on_thread_exit(void* value) noexcept {
  auto* directory = static_cast<Directory*>(value);
  // From here on this thread has no heaps; a block that a later hook frees makes it begin anew, and
  // the hook runs again.
  t_directory = &g_none;
  t_last = kNoEntry;
  {
    LockGuard guard(g_registry.lock);
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      const Entry& entry = directory->entries[i];
      const Slot& slot = g_registry.slots[i];
      if (slot.instance != nullptr && slot.generation == entry.generation) {
        slot.instance->abandon(*entry.heap);
      }
    }
  }
  g_metadata.deallocate(directory, sizeof(Directory));
}

/// Threads that end later run on_thread_exit().
[[gnu::constructor]] void stay_loaded() { os::stay_loaded(); }

}  // namespace

MetadataArena& metadata() noexcept { return g_metadata; }

bool remember(std::uint32_t slot, std::uint64_t generation, ThreadHeap* heap) noexcept {
  if (t_directory == &g_none) {
    void* memory = g_metadata.allocate(sizeof(Directory));
    if (memory == nullptr) return false;
    if (!os::set_thread_value(g_registry.key, memory)) {
      g_metadata.deallocate(memory, sizeof(Directory));
      return false;
    }
    t_directory = new (memory) Directory{};
  }
  t_directory->entries[slot] = t_last = {generation, heap};
  return true;
}

bool register_instance(HeapInstance& instance, std::uint32_t& slot,
                       std::uint64_t& generation) noexcept {
  LockGuard guard(g_registry.lock);
  if (!g_registry.has_key) {
    g_registry.has_key = os::create_thread_key(g_registry.key, on_thread_exit);
    if (!g_registry.has_key) return false;
  }
  for (std::uint32_t i = 0; i < kSlots; ++i) {
    if (g_registry.slots[i].instance != nullptr) continue;
    g_registry.slots[i] = {&instance, g_registry.next_generation++};
    slot = i;
    generation = g_registry.slots[i].generation;
    return true;
  }
  return false;
}

void unregister_instance(std::uint32_t slot) noexcept {
  LockGuard guard(g_registry.lock);
  g_registry.slots[slot] = {};
}

}  // namespace strata::heap_directory
