// Visits to all heaps: making room for others, and the end of the process.

#include "user_heap/heap_table.h"

namespace strata {
namespace {

/// The heap whose objects this thread verifies, 0 for none: a mistake found in a block outside all
/// regions is that heap's.
constinit thread_local HeapNumber t_verified_heap = 0;

}  // namespace

/// Adds the heap's name to a sentence about an address.
void HeapTable::name_heap_of(const void* p, TextWriter& sentence) noexcept {
  const Region* const region = g_heap_map.region_of(p);
  HeapNumber heap = region != nullptr ? region->owner : t_verified_heap;
  if (UserHeap* const guarding = heap == 0 ? g_heap_table.guarding_heap(p) : nullptr)
    heap = guarding->number();
  if (heap == 0) return;
  sentence.text(" (in ");
  g_heap_table.write_name(heap, sentence);
  sentence.text(")");
}

std::size_t HeapTable::next_number(std::size_t from) noexcept {
  LockGuard guard(lock_);
  UserHeap* const heap = next_made(from);
  return heap != nullptr ? heap->number() : SharedLimit::kNone;
}

/// Calls `function(MallocInstance&)`, unless the heap has ended or was never used. Meanwhile it
/// cannot end, be reset, or be counted.
template <typename Function>
void HeapTable::with_heap(std::size_t number, Function function) noexcept {
  MallocInstance* malloc;
  {
    LockGuard guard(lock_);
    UserHeap* const heap = next_made(number);
    if (heap == nullptr || heap->number() != number) return;
    malloc = heap->malloc_if_made();
    malloc->round_lock().lock();
  }
  function(*malloc);
  malloc->round_lock().unlock();
}

/// MallocInstance::verify_at_exit() for each live heap. Other threads may go on using them.
void HeapTable::verify_at_exit() noexcept {
  if (must_not_wait()) return;
  for (std::size_t number = next_number(0); number != SharedLimit::kNone;
       number = next_number(number + 1)) {
    with_heap(number, [number](MallocInstance& malloc) {
      t_verified_heap = static_cast<HeapNumber>(number);
      HeapUse* const use = HeapThread::use_here(t_verified_heap);
      ThreadState none = MallocInstance::new_thread();
      malloc.verify_at_exit(use != nullptr ? use->state : none);
      t_verified_heap = 0;
    });
  }
}

// Memory for others.

/// The next holder after `last` in order of idle memory. A heap that cannot return pages has none.
SharedLimit::Idle HeapTable::next_idle(SharedLimit::Idle last) noexcept {
  SharedLimit::Idle first{0, 0};
  LockGuard guard(lock_);
  for_each_made([&](UserHeap& heap) {
    if (heap.pages() != nullptr && !heap.pages()->can_purge()) return;
    const std::size_t idle = heap.malloc_if_made()->engine().idle_hint();
    const std::size_t number = heap.number();
    const bool is_after = idle != last.bytes ? idle < last.bytes : number > last.which;
    if (is_after && idle > first.bytes) first = {idle, number};
  });
  return first;
}

void HeapTable::give_back(std::size_t number) noexcept {
  if (must_not_wait()) return;
  with_heap(number, [](MallocInstance& malloc) { malloc.release_memory_for_others(); });
}

constinit SharedLimit::Holders HeapTable::holders_{
    .next_idle = [](SharedLimit::Idle last) noexcept { return g_heap_table.next_idle(last); },
    .next = [](std::size_t from) noexcept { return g_heap_table.next_number(from); },
    .give_back = [](std::size_t which) noexcept { g_heap_table.give_back(which); }};

}  // namespace strata
