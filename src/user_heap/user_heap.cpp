#include "user_heap/user_heap.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "base/fatal.h"
#include "base/metadata_arena.h"
#include "base/random.h"
#include "base/shared_limit.h"
#include "os/errors.h"
#include "user_heap/heap_table.h"

namespace strata {
namespace {

/// Serves signal handlers that interrupted a heap in their own thread; for all heaps.
constinit SpareMemory g_spare;

}  // namespace

UserHeap::UserHeap(HeapNumber number, const Heap::Options& options, UserPages* pages) noexcept
    : number_(number),
      reclaim_delay_ms_(options.reclaims && (pages == nullptr || pages->can_purge())
                            ? std::max(options.reclaim_delay_ms, 2u)
                            : 0),
      soft_limit_(options.soft_limit_bytes),
      hard_limit_(options.hard_limit_bytes),
      checks_(options.checks),
      guard_rate_(options.guard_rate),
      huge_pages_(pages == nullptr ? options.huge_pages : Heap::HugePages::kNever),
      pages_(pages) {
  const char* const name = options.name != nullptr ? options.name : "";
  const std::size_t length = strnlen(name, Heap::kMostNameBytes);
  std::memcpy(name_, name, length);
  name_[length] = '\0';
}

/// \returns  nullptr when out of memory; the next call tries again.
MallocInstance* UserHeap::make_malloc() noexcept {
  if (MallocInstance* const made = malloc_if_made()) return made;
  if (must_not_wait()) return nullptr;
  SharedLimit* const limit = g_heap_table.limit();
  MallocInstance* made =
      make_malloc_alone(/* needs_guards= */ limit != nullptr || hard_limit_ == 0);
  // Without a malloc there is nobody yet who asks others for what they have idle.
  if (made == nullptr && limit != nullptr) {
    limit->make_room(MetadataArena::kSmallChunkBytes);
    made = make_malloc_alone(/* needs_guards= */ false);
  }
  if (made != nullptr) g_heap_table.follow_profile(*this);
  return made;
}

/// \param needs_guards  whether to fail if there is no memory for guards that were asked for
MallocInstance* UserHeap::make_malloc_alone(bool needs_guards) noexcept {
  LockGuard guard(making_);
  if (MallocInstance* const made = malloc_if_made()) return made;  // another thread was first
  void* const memory = g_heap_table.mallocs().take();
  if (memory == nullptr) return nullptr;
  Engine::Ground ground{g_heap_table.pages(), number_, &g_heap_table.regions()};
  ground.bookkeeping = &g_heap_table.bookkeeping();
  if (pages_ != nullptr) ground.regions = ground.blocks = pages_;
  auto* const made = new (memory) MallocInstance(ground, g_heap_map, g_spare, *this);
  Options options;
  options.release_delay_ms = 0;  // the reclaimer of all heaps does it
  options.checks = checks_ == Heap::Checks::kFull    ? Options::Checks::kFull
                   : checks_ == Heap::Checks::kFrees ? Options::Checks::kFrees
                                                     : Options::Checks::kBasic;
  if (huge_pages_ == Heap::HugePages::kAlways) options.huge_pages = HugePages::kAlways;
  if (huge_pages_ == Heap::HugePages::kNever) options.huge_pages = HugePages::kNever;
  made->profiler().join(g_heap_table.profile(), name_);
  options.random = g_heap_table.random();
  if (g_heap_table.limit() != nullptr) made->engine().limit().share(*g_heap_table.limit());
  // Before the start: what full checks hold from then on is within it, too.
  made->engine().limit().configure(soft_limit_, hard_limit_);
  const std::uint64_t seed = random_word(seed_of(options.random), number_);
  const bool has_started = made->start(options, seed);
  const bool lacks_guards =
      has_started && guard_rate_ != 0 && !made->begin_guards(guard_rate_, seed);
  if (!has_started || (lacks_guards && needs_guards)) {
    made->discard();
    g_heap_table.mallocs().give_back(memory);
    return nullptr;
  }
  // Before another thread allocates from it; whether that is right is seen to afterwards.
  if (g_heap_table.profile().is_on()) made->profiler().watch();
  malloc_.store(made, std::memory_order_release);
  return made;
}

/// Makes the thread's bins known to the hot paths, if it has some. A watch that begins meanwhile
/// may have hidden them before they were there, so the thread checks again; HeapTable::hide_bins()
/// is the partner. The fence is for the compiler.
void UserHeap::show_bins(HeapUse& use) noexcept {
  ObjectBins* const bins = MallocInstance::bins_of(use.state);
  use.thread->set_bins(number_, bins);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (&use.state.for_malloc() != bins) use.thread->set_bins(number_, nullptr);
}

/// Calls `function(ThreadState&)` with the calling thread's state. Meanwhile the hot paths find no
/// bins: a signal handler may come while the cache moves them. The fences are for the compiler.
template <typename Function>
auto UserHeap::with_thread(MallocInstance& malloc, Function&& function) noexcept {
  HeapUse* const use = must_not_wait() ? nullptr : g_heap_table.use_here(*this);
  if (use == nullptr) {
    ThreadState uncached = MallocInstance::uncached_thread();
    return function(uncached);
  }
  struct AtEnd {
    UserHeap& heap;
    HeapUse& use;
    ~AtEnd() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (--use.calls == 0) heap.show_bins(use);
      g_heap_table.reclaimer().notice(heap);
    }
  } at_end{*this, *use};
  ++use->calls;
  use->thread->set_bins(number_, nullptr);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return function(use->state);
}

/// \returns  function(MallocInstance&, ThreadState&), with the heap's malloc made, or nullptr with
///           errno
template <typename Function>
void* UserHeap::allocate_with(Function&& function) noexcept {
  MallocInstance* const malloc = make_malloc();
  if (malloc == nullptr) {
    os::set_errno_no_memory();
    return nullptr;
  }
  return with_thread(*malloc, [&](ThreadState& thread) { return function(*malloc, thread); });
}

/// Pops from the calling thread's cache while a feature watches allocations.
void* UserHeap::allocate_cached(std::size_t bytes) noexcept {
  HeapUse* const use = HeapThread::use_here(number_);
  if (use == nullptr) return nullptr;
  return malloc_if_made()->pop_looked_at(use->state, bytes);
}

/// \returns  false if the cache does not do, or something is wrong: deallocate() says what
bool UserHeap::deallocate_cached(void* p, const FreeCall& call) noexcept {
  HeapUse* const use = HeapThread::use_here(number_);
  if (use == nullptr) return false;
  const PageMap& map = g_heap_map;
  if (checks_ != Heap::Checks::kFrees) return HotPath::push(use->state, map, p);
  // The state of another heap's object would say that it is live.
  const Region* const region = map.region_of(p);
  return region != nullptr && region->owner == number_ &&
         HotPath::push_verified(use->state, map, p, call);
}

void* UserHeap::allocate(std::size_t bytes) noexcept {
  if (void* const object = allocate_cached(bytes)) return object;
  return allocate_with(
      [&](MallocInstance& malloc, ThreadState& thread) { return malloc.allocate(thread, bytes); });
}

void* UserHeap::allocate_zeroed(std::size_t count, std::size_t bytes) noexcept {
  return allocate_with([&](MallocInstance& malloc, ThreadState& thread) {
    return malloc.allocate_zeroed(thread, count, bytes);
  });
}

void* UserHeap::allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept {
  return allocate_with([&](MallocInstance& malloc, ThreadState& thread) {
    return malloc.allocate_aligned(thread, alignment, bytes);
  });
}

/// Dies over a pointer given to a heap from which nothing was allocated.
void UserHeap::die_unmade(const char* action, const void* p) const noexcept {
  die_if_of_another_heap(g_heap_map, action, p, number_);
  fatal_call(action, p, ": nothing was allocated from its heap yet");
}

/// The malloc that allocated a pointer given to this heap.
MallocInstance& UserHeap::malloc_of(const void* p, const char* action) const noexcept {
  MallocInstance* const malloc = malloc_if_made();
  if (malloc == nullptr) die_unmade(action, p);
  malloc->engine().expect_own_region(action, p);
  return *malloc;
}

void* UserHeap::reallocate(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return allocate(bytes);
  MallocInstance& malloc = malloc_of(p, "realloc");
  return with_thread(malloc,
                     [&](ThreadState& thread) { return malloc.reallocate(thread, p, bytes); });
}

void UserHeap::deallocate(void* p, const FreeCall& call) noexcept {
  if (p == nullptr || deallocate_cached(p, call)) return;
  MallocInstance* const malloc = malloc_if_made();
  if (malloc == nullptr) die_unmade("free", p);
  if (malloc->verifies_frees()) malloc->engine().expect_own_region("free", p);
  with_thread(*malloc, [&](ThreadState& thread) { malloc->deallocate(thread, p, call); });
}

std::size_t UserHeap::usable_bytes(const void* p) noexcept {
  if (p == nullptr) return 0;
  return malloc_of(p, "usable_size").usable_bytes(p);
}

bool UserHeap::resize_in_place(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return false;
  const bool has_room = malloc_of(p, "realloc").resize_in_place(p, bytes);
  if (!must_not_wait()) g_heap_table.reclaimer().notice(*this);
  return has_room;
}

bool UserHeap::owns(const void* p) noexcept {
  MallocInstance* const malloc = malloc_if_made();
  return malloc != nullptr && malloc->owns(p);
}

bool UserHeap::release_memory() noexcept {
  MallocInstance* const malloc = malloc_if_made();
  if (malloc == nullptr) return false;
  return with_thread(*malloc, [&](ThreadState& thread) { return malloc->release_memory(thread); });
}

Statistics UserHeap::collect_statistics() noexcept {
  MallocInstance* const malloc = malloc_if_made();
  Statistics now = malloc != nullptr ? strata::collect_statistics(*malloc) : Statistics{};
  now.name = name_;
  if (malloc != nullptr) return now;
  now.limit.soft_limit = soft_limit_;
  now.limit.hard_limit = hard_limit_;
  return now;
}

void UserHeap::reset() noexcept {
  MallocInstance* const malloc = malloc_if_made();
  if (malloc == nullptr || must_not_wait()) return;
  // The reclaimer must not look meanwhile.
  LockGuard guard(malloc->round_lock());
  malloc->verify_objects();
  malloc->forget_all();
}

void UserHeap::verify_objects() noexcept {
  MallocInstance* const malloc = malloc_if_made();
  if (malloc == nullptr) return;
  LockGuard guard(malloc->round_lock());
  malloc->verify_objects();
}

void UserHeap::discard() noexcept {
  MallocInstance* const malloc = malloc_if_made();
  if (malloc == nullptr) return;
  // The reclaimer's round is over, and it finds the heap no more.
  { LockGuard guard(malloc->round_lock()); }
  malloc->discard();
}

void UserHeap::stop_sharing_limit() noexcept {
  if (MallocInstance* const malloc = malloc_if_made()) malloc->engine().limit().stop_sharing();
}

void UserHeap::give_back_malloc() noexcept {
  if (MallocInstance* const malloc = malloc_if_made()) g_heap_table.mallocs().give_back(malloc);
}

void UserHeap::check_invariants() noexcept {
  MallocInstance* const malloc = malloc_if_made();
  if (malloc == nullptr) return;
  {
    LockGuard guard(malloc->round_lock());
    malloc->engine().check_invariants();
  }
  const Statistics now = collect_statistics();
  STRATA_INVARIANT(now.mapped == now.live + now.cached + now.free() + now.metadata + now.returned(),
                   "the bytes of a heap do not add up");
  STRATA_INVARIANT(now.limit.held == now.mapped - now.returned(),
                   "what a heap holds is not what it has mapped");
  const bool may_refuse_purges = pages_ != nullptr && pages_->can_purge();
  STRATA_INVARIANT(hard_limit_ == 0 || may_refuse_purges || now.limit.peak <= hard_limit_,
                   "a heap held more than its hard limit");
}

void UserHeap::hold_locks_for_fork() noexcept {
  LocksInFork::hold(making_);
  if (MallocInstance* const malloc = malloc_if_made()) malloc->hold_locks_for_fork();
}

void UserHeap::reset_after_fork(HeapUse* own) noexcept {
  if (MallocInstance* const malloc = malloc_if_made()) {
    ThreadState none = MallocInstance::new_thread();
    malloc->reset_after_fork(own != nullptr ? own->state : none);
  }
}

}  // namespace strata
