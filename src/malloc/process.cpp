#include "malloc/process.h"

#include <atomic>
#include <cstring>

#include "base/fatal.h"
#include "base/lock.h"
#include "malloc/profile_options.h"
#include "malloc/statistics.h"
#include "malloc/statistics_signal.h"
#include "os/process.h"
#include "os/standard_error.h"

namespace strata {
namespace {

/// Bins of a thread that bypasses the caches: it has ended, or every free is to be checked at once.
/// A thread that has not allocated yet has g_empty_bins.
constinit ObjectBins g_direct_bins;

constinit Lock g_start_lock{LockRank::kStart};
std::atomic<bool> g_is_started{
    false};  // release after the engine is ready, acquire before its first use

bool is_fresh() noexcept { return t_thread.free_bins == &g_empty_bins; }
bool is_direct() noexcept { return t_thread.free_bins == &g_direct_bins; }

/// What can be told of a block without a lock: its place, and what the page map says.
bool is_known_without_lock(const void* p) noexcept {
  return g_spare.owns(p) ||
         (g_process.engine.class_of(p) != 0 && g_process.options.checks != Options::Checks::kFull);
}

/// The calling thread's cache, nullptr if it has none.
ThreadCache* own_cache() noexcept {
  ObjectBins* const bins = t_thread.free_bins;
  return is_fresh() || is_direct() ? nullptr : static_cast<ThreadCache*>(bins);
}

void bypass_caches() noexcept {
  t_thread.free_bins = &g_direct_bins;
  t_thread.set_malloc_bins(g_direct_bins);
}

/// What is looked after now and then, with no lock held.
void after_slow_path() noexcept {
  WatchPause pause(t_thread);
  g_process.engine.gather_if_growing(own_cache());
  g_process.engine.keep_to_soft_limit([] { g_process.checked.flush_quarantine(); });
  g_process.scavenger.notice();
  notice_statistics_signal();
  notice_profile_signal();
}

void on_thread_exit(void* cache) noexcept {
  g_process.engine.registry().park(*static_cast<ThreadCache*>(cache));
  // What the C library itself frees after this goes the direct way.
  bypass_caches();
  after_slow_path();
}

/// A signal handler that forks, to have a debugger look at what it interrupted, may interrupt the
/// malloc: the child gets the locks as they are, and does without them as its parent does.
void before_fork() noexcept {
  t_thread.is_forking_unlocked = must_not_wait();
  if (t_thread.is_forking_unlocked) return;
  g_start_lock.lock();
  g_process.scavenger.lock_for_fork();
  g_process.detour.lock_for_fork();
  g_process.checked.lock_for_fork();
  g_process.engine.lock_all();
}

void after_fork_in_parent() noexcept {
  if (t_thread.is_forking_unlocked) return;
  g_process.engine.unlock_all();
  g_process.checked.unlock_after_fork();
  g_process.detour.unlock_after_fork();
  g_process.scavenger.unlock_after_fork();
  g_start_lock.unlock();
}

void after_fork_in_child() noexcept {
  if (t_thread.is_forking_unlocked) return;
  g_process.engine.reset_after_fork(own_cache());
  g_process.checked.reset_after_fork();
  g_process.detour.reset_after_fork();
  g_process.scavenger.reset_after_fork();
  g_start_lock.reset_after_fork();
  os::let_go_of_standard_error();
  reset_statistics_signal_after_fork();
  reset_profile_signal_after_fork();
}

/// Makes the process ready.
/// \returns  False when out of memory: the next call tries again.
bool start_process() noexcept {
  if (g_is_started.load(std::memory_order_acquire)) return true;
  {
    LockGuard guard(g_start_lock);
    if (g_is_started.load(std::memory_order_relaxed)) return true;
    Options options;
    read_options(options);
    const std::uint64_t seed = os::random_seed();
    if (!g_process.engine.start(options, seed)) return false;
    g_process.options = options;
    g_process.checked.configure(seed);
    g_process.scavenger.set_delay_ms(options.release_delay_ms);
    // Before any thread can have a cache. Where the C library refuses, the malloc still works: the
    // cache of a thread that ends stays in use.
    os::register_thread_exit(on_thread_exit);
    g_is_started.store(true, std::memory_order_release);
  }
  // These may allocate; the engine is ready. Without fork handlers fork is as it was.
  os::register_fork_handlers(before_fork, after_fork_in_parent, after_fork_in_child);
  const Options::Stats stats = g_process.options.stats;
  if (stats == Options::Stats::kExit || stats == Options::Stats::kBoth) {
    if (*g_process.options.stats_file == '\0') os::keep_standard_error();
    os::register_exit_handler(print_statistics);
  }
  start_statistics_signal();
  return true;
}

/// Leaves the fresh state: the thread gets a cache, or goes the direct way.
/// \returns  False when out of memory.
bool start_thread() noexcept {
  if (!start_process()) return false;
  if (!is_fresh()) return true;  // the registrations above allocated
  if (g_process.options.checks == Options::Checks::kFull) {
    bypass_caches();
    return true;
  }
  ThreadRegistry& registry = g_process.engine.registry();
  ThreadCache* cache = registry.adopt();
  if (cache == nullptr) return false;
  registry.enroll(*cache, t_thread, false);
  // May allocate: the cache is in place.
  if (os::set_thread_exit_value(cache)) registry.enroll(*cache, t_thread, true);
  return true;
}

/// Whether every call goes through the checked heap.
bool is_checked() noexcept {
  return start_process() && g_process.options.checks == Options::Checks::kFull;
}

/// Whether the process counts allocations. It cannot know before it has started.
bool is_on_detour() noexcept {
  if (!g_is_started.load(std::memory_order_relaxed)) start_process();
  return g_process.detour.is_on();
}

/// Counts an allocation where somebody wants to know.
/// \returns  the watcher's block if it was chosen, nullptr if it is to be served like any other
Engine::Block allocate_watched(unsigned size_class, const Allocation& allocation) noexcept {
  if (!is_on_detour() || (is_fresh() && !start_thread())) return {nullptr, false};
  return g_process.detour.allocate(t_thread, size_class, allocation);
}

void* try_allocate_object(unsigned size_class) noexcept {
  if (is_fresh() && !start_thread()) return nullptr;
  ThreadCache* const cache = own_cache();
  if (cache != nullptr) {
    // The watch may have ended while its watcher was asked.
    if (&t_thread.for_malloc() != cache && !g_process.detour.is_on())
      t_thread.exchange_malloc_bins(g_empty_bins, *cache);
    // An adopted cache is warm, and on the detour malloc has not looked.
    if (void* object = cache->pop(size_class)) return object;
  }
  void* const object = cache != nullptr ? cache->refill_and_pop(size_class)
                                        : g_process.engine.allocate_object(size_class);
  after_slow_path();
  return object;
}

Engine::Block allocate_object(unsigned size_class) noexcept {
  void* object = try_allocate_object(size_class);
  if (object == nullptr && release_memory()) object = try_allocate_object(size_class);
  if (object == nullptr) {
    os::set_errno_no_memory();
    return {nullptr, false};
  }
  const bool is_zero =
      Span::tracks_fresh(SizeClassMap::bytes_of(size_class)) && g_process.engine.take_fresh(object);
  return {object, is_zero};
}

Engine::Block allocate_large(std::size_t bytes, std::size_t alignment) noexcept {
  Engine::Block block{nullptr, false};
  if (bytes <= Engine::kMaxBytes && start_process()) {
    block = g_process.engine.allocate_large(bytes, alignment);
    if (block.address == nullptr && release_memory())
      block = g_process.engine.allocate_large(bytes, alignment);
  }
  if (block.address == nullptr) os::set_errno_no_memory();
  after_slow_path();
  return block;
}

Engine::Block allocate_checked(const Allocation& allocation) noexcept {
  if (is_fresh()) start_thread();
  const Allocation said = allocation.as_said();
  Engine::Block block = g_process.checked.allocate(said);
  if (block.address == nullptr && release_memory()) block = g_process.checked.allocate(said);
  if (block.address == nullptr) os::set_errno_no_memory();
  after_slow_path();
  return block;
}

Engine::Block allocate_spare(const Allocation& allocation) noexcept {
  void* const p = g_spare.allocate(allocation.bytes, allocation.alignment);
  if (p == nullptr) os::set_errno_no_memory();
  return {p, false};
}

/// Every allocation that the thread's bins do not serve.
/// \pre  the size class is the one for its bytes and alignment
Engine::Block serve(unsigned size_class, const Allocation& allocation) noexcept {
  if (must_not_wait()) [[unlikely]]
    return allocate_spare(allocation);
  const Engine::Block watched = allocate_watched(size_class, allocation);
  if (watched.address != nullptr) return watched;
  if (is_checked()) return allocate_checked(allocation);
  return size_class != 0 ? allocate_object(size_class)
                         : allocate_large(allocation.bytes, allocation.alignment);
}

}  // namespace

constinit Process g_process;
constinit SpareMemory g_spare;
constinit ObjectBins g_empty_bins;
constinit thread_local ThreadState t_thread{&g_empty_bins, &g_empty_bins};

bool must_not_wait() noexcept { return is_any_lock_held_here() || has_died_with_locks(); }

namespace {

/// Bytes usable at `p`, whoever it belongs to.
std::size_t usable_bytes(const void* p, const char* action) noexcept {
  if (g_spare.owns(p)) return g_spare.usable_bytes(p, action);
  if (g_process.guards.owns(p)) return g_process.guards.requested_bytes(p, action);
  if (is_checked()) return g_process.checked.requested_bytes(p, action);
  return g_process.engine.usable_bytes(p, action);
}

/// realloc of a block that is in no size class of the page map, without copying.
/// \returns  nullptr if it has to be moved.
void* resize_large(void* p, std::size_t bytes) noexcept {
  if (g_process.guards.owns(p) || is_checked() || g_spare.owns(p)) return nullptr;
  Engine& engine = g_process.engine;
  Detour& detour = g_process.detour;
  if (!detour.has_watchers() || engine.record_of(p) != nullptr)
    return engine.resize_large(p, bytes);
  // For a watcher a block that is resized is freed and allocated again, wherever it stands.
  detour.forget(t_thread, p);
  void* const resized = engine.resize_large(p, bytes);
  if (resized != nullptr && detour.is_on() && t_thread.count_down(bytes + 1))
    detour.adopt(t_thread, resized, bytes);
  return resized;
}

}  // namespace

[[gnu::noinline]] void* allocate_slowly(std::size_t bytes) noexcept {
  const unsigned size_class = SizeClassMap::class_of(bytes);
  if (void* object = t_thread.pop_own(size_class)) {
    if (Span::tracks_fresh(SizeClassMap::bytes_of(size_class))) g_process.engine.take_fresh(object);
    return object;
  }
  return serve(size_class, {bytes, SizeClassMap::kGrain, false}).address;
}

namespace {

void give_back(void* p, const FreeCall& call) noexcept {
  if (p == nullptr) return;
  if (g_spare.owns(p)) return g_spare.deallocate(p);
  if (must_not_wait()) return;  // lost
  Engine& engine = g_process.engine;
  const auto size_class = static_cast<unsigned>(engine.class_of(p));
  if (size_class == 0) {
    if (!engine.is_started()) fatal_pointer("invalid free of ", p, ": nothing was allocated yet");
    if (g_process.guards.owns(p)) return g_process.guards.deallocate(p, call);
    if (g_process.detour.has_watchers()) g_process.detour.forget(t_thread, p);
  }
  if (is_checked()) {
    g_process.checked.deallocate(p, call);
  } else if (size_class == 0) {
    engine.deallocate_large(p);
  } else {
    if (is_fresh()) start_thread();
    ThreadCache* const cache = own_cache();
    if (cache == nullptr) {
      engine.deallocate_object(size_class, p);
    } else if (!cache->push(size_class, p)) {
      if (cache->is_latest(size_class, p))
        fatal_pointer("double free of ", p, ": it was freed just before");
      cache->flush_and_push(size_class, p);
    }
  }
  after_slow_path();
}

}  // namespace

[[gnu::noinline]] void deallocate_slowly(void* p) noexcept { give_back(p, FreeCall{}); }

[[gnu::noinline]] void deallocate_slowly(void* p, FreeCall::By by, std::size_t bytes,
                                         std::size_t alignment) noexcept {
  give_back(p, {by, bytes, alignment});
}

void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept {
  std::size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    os::set_errno_no_memory();
    return nullptr;
  }
  if (total <= SizeClassMap::kMaxTableBytes) {
    void* object = allocate(total);
    if (object != nullptr) std::memset(object, 0, total);
    return object;
  }
  const unsigned size_class = SizeClassMap::class_of(total);
  const Engine::Block block = serve(size_class, {total, SizeClassMap::kGrain, false});
  if (block.address != nullptr && !block.is_zero) std::memset(block.address, 0, total);
  return block.address;
}

void* allocate_aligned(std::size_t alignment, std::size_t bytes, bool by_aligned_new) noexcept {
  // A small alignment matters to those alone who compare it with what a delete says.
  const bool is_compared = is_checked() || (by_aligned_new && is_on_detour());
  if (alignment <= SizeClassMap::kGrain && !is_compared) return allocate(bytes);
  const unsigned size_class = SizeClassMap::class_of_aligned(bytes, alignment);
  return serve(size_class, {bytes, alignment, by_aligned_new}).address;
}

void* reallocate(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return allocate(bytes);
  if (must_not_wait() && !is_known_without_lock(p)) {
    os::set_errno_no_memory();
    return nullptr;
  }
  const std::size_t old_bytes = usable_bytes(p, "realloc");
  if (bytes == 0) {
    deallocate(p);
    return nullptr;
  }
  if (g_process.engine.class_of(p) != 0) {
    if (!is_checked() && Engine::stays_in_place(old_bytes, bytes)) return p;
  } else if (void* resized = resize_large(p, bytes)) {
    after_slow_path();
    return resized;
  }
  const int error = os::current_errno();
  void* moved = allocate(bytes);
  if (moved == nullptr) {
    // To become smaller is not refused: the block stays as it is, unless somebody knows it by its
    // exact size.
    if (bytes > old_bytes || is_checked() || g_process.guards.owns(p)) return nullptr;
    os::set_errno(error);
    return p;
  }
  std::memcpy(moved, p, bytes < old_bytes ? bytes : old_bytes);
  deallocate(p);
  return moved;
}

std::size_t usable_bytes(const void* p) noexcept {
  if (p == nullptr || (must_not_wait() && !is_known_without_lock(p))) return 0;
  return usable_bytes(p, "malloc_usable_size");
}

bool release_memory() noexcept {
  if (must_not_wait() || !g_is_started.load(std::memory_order_acquire)) return false;
  ThreadCache* cache = own_cache();
  const bool flushed = cache != nullptr ? cache->flush_all() : g_process.checked.flush_quarantine();
  return g_process.engine.release_all() != 0 || flushed;
}

}  // namespace strata
