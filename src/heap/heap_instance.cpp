#include "heap/heap_instance.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <bit>
#include <new>

#include "base/fatal.h"
#include "os/resources.h"

namespace strata {
namespace {

std::size_t smaller_budget(const ThreadHeaps::Options& options) noexcept {
  return std::min(options.thread_budget_bytes, options.total_budget_bytes);
}

/// What is wrong with these options, as a sentence; nullptr if nothing is.
const char* reason_against(const ThreadHeaps::Options& options) noexcept {
  if (std::min(options.arena_bytes, smaller_budget(options)) < ThreadHeaps::kMinArenaBytes) {
    return "ThreadHeaps: an arena or a budget is below 64 KiB";
  }
  if (options.arena_bytes > CoalescingHeap::kMaxRegionBytes) {
    return "ThreadHeaps: an arena is above 16 GiB";
  }
  if (options.cached_bytes > ThreadHeaps::kMaxCachedBytes) {
    return "ThreadHeaps: a cache is above 1 GiB";
  }
  return nullptr;
}

/// The options as the instance uses them.
ThreadHeaps::Options in_whole_pages(ThreadHeaps::Options options) noexcept {
  const std::size_t page = os::page_bytes();
  const std::size_t budget = smaller_budget(options);
  options.arena_bytes = detail::round_up(options.arena_bytes, page);
  if (options.arena_bytes > budget) options.arena_bytes = detail::round_down(budget, page);
  // What waits in caches is a small part of every budget.
  options.cached_bytes = std::min(
      {options.cached_bytes, options.thread_budget_bytes / 32, options.total_budget_bytes / 64});
  if (options.pages == nullptr) options.pages = &os::kernel_pages();
  return options;
}

constexpr std::uint32_t kMaxSharedHeaps = 16;
constexpr std::size_t kTableBytes = ArenaSet::kPlaces * sizeof(ArenaSet::Place);

}  // namespace

HeapInstance::HeapInstance(const ThreadHeaps::Options& options) noexcept
    : options_(options),
      shared_heaps_(std::min(2 * os::processor_count(), kMaxSharedHeaps)),
      arena_mask_(std::bit_ceil(options.arena_bytes) - 1),
      reclaimer_(*this) {}

HeapInstance* HeapInstance::create(const ThreadHeaps::Options& options,
                                   const char*& reason) noexcept {
  reason = reason_against(options);
  if (reason != nullptr) return nullptr;
  reason = ThreadHeaps::kNoMemory;
  void* memory = heap_directory::metadata().allocate(sizeof(HeapInstance));
  if (memory == nullptr) return nullptr;
  auto* instance = new (memory) HeapInstance(in_whole_pages(options));
  using heap_directory::Registered;
  const Registered registered =
      heap_directory::register_instance(*instance, instance->slot_, instance->generation_);
  if (registered == Registered::kYes) {
    reason = nullptr;
    return instance;
  }
  reason = registered == Registered::kNoSlot ? ThreadHeaps::kTooMany : ThreadHeaps::kNoKey;
  instance->~HeapInstance();
  heap_directory::metadata().deallocate(memory, sizeof(HeapInstance));
  return nullptr;
}

void HeapInstance::destroy() noexcept {
  if (!heap_directory::unregister_instance(slot_, generation_)) return;
  reclaimer_.stop();
  // Arenas first: the threads' heaps are told of each that goes.
  for (ArenaHeap* heap = first_heap(); heap != nullptr;) {
    ArenaHeap* next = heap->next_;
    heap->unmap_arenas();
    heap->~ArenaHeap();
    heap_directory::metadata().deallocate(heap, sizeof(ArenaHeap));
    heap = next;
  }
  for (ThreadHeap* heap = heaps_.load(std::memory_order_acquire); heap != nullptr;) {
    ThreadHeap* next = heap->next_;
    heap->~ThreadHeap();
    heap_directory::metadata().deallocate(heap, sizeof(ThreadHeap));
    heap = next;
  }
  unmap_table();
  this->~HeapInstance();
  heap_directory::metadata().deallocate(this, sizeof(HeapInstance));
}

// --- heaps and threads -------------------------------------------------------------------------

ThreadHeap* HeapInstance::attach() noexcept {
  ThreadHeap* heap = nullptr;
  {
    LockGuard guard(lock_);
    heap = abandoned_;
    if (heap != nullptr) abandoned_ = heap->next_abandoned_;
  }
  if (heap == nullptr) heap = make_heap();
  if (heap == nullptr || heap_directory::remember(slot_, generation_, heap)) return heap;
  abandon(*heap);
  return nullptr;
}

ThreadHeap* HeapInstance::make_heap() noexcept {
  void* memory = heap_directory::metadata().allocate(sizeof(ThreadHeap));
  if (memory == nullptr) return nullptr;
  ArenaHeap* home;
  {
    LockGuard guard(lock_);
    home = home_for(heap_count_);
    if (home != nullptr) ++heap_count_;
  }
  if (home == nullptr) {
    heap_directory::metadata().deallocate(memory, sizeof(ThreadHeap));
    return nullptr;
  }
  home->add_thread();  // its lock comes before ours
  auto* heap = new (memory) ThreadHeap(*this, *home);
  LockGuard guard(lock_);
  heap->next_ = heaps_.load(std::memory_order_relaxed);
  // release pairs with the acquire of those who walk the list: they see a whole heap.
  heaps_.store(heap, std::memory_order_release);
  return heap;
}

/// The home of a heap: its own, or one of the shared ones, two per processor, so that not all
/// threads wait for a preempted holder; more would share less.
ArenaHeap* HeapInstance::home_for(std::uint32_t number) noexcept {
  if (is_shared()) number %= shared_heaps_;
  for (ArenaHeap* heap = first_heap(); heap != nullptr; heap = heap->next_) {
    if (is_shared() && heap->number() == number) return heap;
  }
  void* memory = heap_directory::metadata().allocate(sizeof(ArenaHeap));
  if (memory == nullptr) return nullptr;
  auto* heap = new (memory) ArenaHeap(*this, number);
  heap->next_ = arena_heaps_.load(std::memory_order_relaxed);
  arena_heaps_.store(heap, std::memory_order_seq_cst);
  return heap;
}

void HeapInstance::abandon(ThreadHeap& heap) noexcept {
  heap.flush();
  if (is_shared()) {
    for (ArenaHeap* each = first_heap(); each != nullptr; each = each->next_) each->shed_half();
  } else {
    heap.home_.shed();
  }
  LockGuard guard(lock_);
  heap.next_abandoned_ = abandoned_;
  abandoned_ = &heap;
}

void HeapInstance::free_without_heap(void* block) noexcept {
  const std::uint32_t granules = ThreadHeap::free_for_nobody(arena_of(block), block);
  homeless_frees_.fetch_add(1, std::memory_order_release);
  homeless_freed_granules_.fetch_add(granules, std::memory_order_relaxed);
}

// --- arenas ------------------------------------------------------------------------------------

void HeapInstance::die_of_no_arena(const void* block) noexcept {
  fatal_pointer("foreign pointer ", block, ": it lies in no arena of these thread heaps");
}

void HeapInstance::unmap_table() noexcept {
  LockGuard guard(lock_);
  if (arenas_.table() != nullptr) pages().unmap_apart(arenas_.table(), kTableBytes);
}

HeapArena* HeapInstance::map_arena(ArenaHeap& heap, std::size_t min_bytes) noexcept {
  const std::size_t page = os::page_bytes();
  const std::size_t of_thread = options_.thread_budget_bytes - heap.held_bytes_;
  std::size_t bytes = std::min(options_.arena_bytes, detail::round_down(of_thread, page));
  {
    // The budget is taken before the memory, so that no lock is held during a system call.
    LockGuard guard(lock_);
    const std::size_t held = held_bytes_.load(std::memory_order_relaxed);
    bytes = std::min(bytes, detail::round_down(options_.total_budget_bytes - held, page));
    if (bytes < min_bytes || bytes < ThreadHeaps::kMinArenaBytes) return nullptr;
    held_bytes_.store(held + bytes, std::memory_order_relaxed);
  }
  void* memory = pages().map_aligned(bytes, arena_mask_ + 1);
  if (memory != nullptr) {
    // Ordinary pages: a huge page per thread at first touch would be 2 MiB for a small heap.
    pages().advise_small(memory, bytes);
    // Before it can be found. Touches only the arena's first page and its last.
    auto* arena = new (memory) HeapArena(heap, bytes);
    LockGuard guard(lock_);
    if (arenas_.table() == nullptr) {
      void* table = pages().map_apart(kTableBytes);
      if (table != nullptr) arenas_.adopt_table(table);
    }
    if (arenas_.table() != nullptr &&
        arenas_.insert(reinterpret_cast<std::uintptr_t>(memory), bytes)) {
      arena_count_.store(arenas_.size(), std::memory_order_relaxed);
      return arena;
    }
  }
  if (memory != nullptr) pages().unmap(memory, bytes);
  LockGuard guard(lock_);
  held_bytes_.store(held_bytes_.load(std::memory_order_relaxed) - bytes, std::memory_order_relaxed);
  return nullptr;
}

void HeapInstance::unmap_arena(HeapArena& arena) noexcept {
  const std::size_t bytes = arena.bytes;
  for (ThreadHeap* heap = heaps_.load(std::memory_order_acquire); heap != nullptr;
       heap = heap->next_) {
    heap->forget_last_arena();
  }
  {
    LockGuard guard(lock_);
    arenas_.erase(reinterpret_cast<std::uintptr_t>(&arena));
    arena_count_.store(arenas_.size(), std::memory_order_relaxed);
    held_bytes_.store(held_bytes_.load(std::memory_order_relaxed) - bytes,
                      std::memory_order_relaxed);
  }
  arena.~HeapArena();
  pages().unmap(&arena, bytes);
}

// --- questions ---------------------------------------------------------------------------------

bool HeapInstance::has_dirty_heap() const noexcept {
  for (ArenaHeap* heap = first_heap(); heap != nullptr; heap = heap->next_) {
    if (heap->is_dirty()) return true;
  }
  return false;
}

std::size_t HeapInstance::sweep(bool is_forced, bool& is_young) noexcept {
  LockGuard guard(sweep_lock_);
  std::size_t returned = 0;
  for (ArenaHeap* heap = first_heap(); heap != nullptr; heap = heap->next_) {
    returned += heap->sweep(is_forced, is_young);
  }
  return returned;
}

ThreadHeaps::Statistics HeapInstance::statistics() const noexcept {
  ThreadHeaps::Statistics sum;
  sum.frees = homeless_frees_.load(std::memory_order_acquire);
  // All frees before all allocations, with acquire: every block whose free is counted here was
  // allocated before, so its allocation is counted below.
  for (const ThreadHeap* heap = heaps_.load(std::memory_order_acquire); heap != nullptr;
       heap = heap->next_) {
    sum.frees += heap->frees_.get(std::memory_order_acquire);
    sum.remote_frees += heap->remote_frees_.get();
  }
  sum.failed_allocations = homeless_failures_.load(std::memory_order_relaxed);
  std::int64_t granules = -homeless_freed_granules_.load(std::memory_order_relaxed);
  for (const ThreadHeap* heap = heaps_.load(std::memory_order_acquire); heap != nullptr;
       heap = heap->next_) {
    sum.allocations += heap->allocations_.get();
    granules += heap->granules_in_use();
    sum.failed_allocations += heap->failures_.get();
    ++sum.heaps;
  }
  const std::int64_t bytes =
      granules * static_cast<std::int64_t>(BlockTag::kGranuleBytes) -
      static_cast<std::int64_t>((sum.allocations - sum.frees) * BlockTag::kBytes);
  sum.bytes_in_use = static_cast<std::size_t>(std::max(bytes, std::int64_t{0}));
  for (const ArenaHeap* heap = first_heap(); heap != nullptr; heap = heap->next_) {
    sum.peak_bytes += heap->peak_bytes();
  }
  sum.held_bytes = held_bytes_.load(std::memory_order_relaxed);
  sum.arenas = arena_count_.load(std::memory_order_relaxed);
  return sum;
}

void HeapInstance::check_invariants() noexcept {
  for (ThreadHeap* heap = heaps_.load(std::memory_order_acquire); heap != nullptr;
       heap = heap->next_) {
    heap->check_invariants();
  }
  std::size_t held = 0;
  for (ArenaHeap* heap = first_heap(); heap != nullptr; heap = heap->next_) {
    held += heap->check_invariants();
  }
  STRATA_INVARIANT(held == held_bytes_.load(std::memory_order_relaxed),
                   "thread heaps miscount their arenas");
}

}  // namespace strata
