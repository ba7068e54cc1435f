#include "malloc/process.h"

#include <atomic>
#include <cstring>

#include "base/fatal.h"
#include "base/lock.h"
#include "malloc/statistics.h"
#include "os/process.h"

namespace strata {
namespace {

/// Bins of a thread that has not allocated yet, and of a thread that bypasses the caches: it has
/// ended, or every free is to be checked at once.
constinit ObjectBins g_fresh_bins;
constinit ObjectBins g_direct_bins;

constinit Lock g_start_lock{LockRank::kStart};
std::atomic<bool> g_is_started{
    false};  // release after the engine is ready, acquire before its first use

/// The calling thread's cache, nullptr if it has none.
ThreadCache* own_cache() noexcept {
  const bool has_cache = t_bins != &g_fresh_bins && t_bins != &g_direct_bins;
  return has_cache ? static_cast<ThreadCache*>(t_bins) : nullptr;
}

void on_thread_exit(void* cache) noexcept {
  // What the C library itself frees after this goes the direct way.
  t_bins = &g_direct_bins;
  g_process.engine.registry().park(*static_cast<ThreadCache*>(cache));
  g_process.scavenger.notice();
}

void before_fork() noexcept {
  g_start_lock.lock();
  g_process.scavenger.lock_for_fork();
  g_process.engine.lock_all();
}

void after_fork_in_parent() noexcept {
  g_process.engine.unlock_all();
  g_process.scavenger.unlock_after_fork();
  g_start_lock.unlock();
}

void after_fork_in_child() noexcept {
  g_process.engine.reset_after_fork(own_cache());
  g_process.scavenger.reset_after_fork();
  g_start_lock.reset_after_fork();
}

/// Makes the process ready. \returns False when out of memory: the next call tries again.
bool start_process() noexcept {
  if (g_is_started.load(std::memory_order_acquire)) return true;
  {
    LockGuard guard(g_start_lock);
    if (g_is_started.load(std::memory_order_relaxed)) return true;
    Options options;
    read_options(options);
    if (!g_process.engine.start(options, os::random_seed())) return false;
    g_process.options = options;
    g_process.scavenger.set_delay_ms(options.release_delay_ms);
    // Before any thread can have a cache. Where the C library refuses, the malloc still works: the
    // cache of a thread that ends stays in use.
    os::register_thread_exit(on_thread_exit);
    g_is_started.store(true, std::memory_order_release);
  }
  // These may allocate; the engine is ready. Without fork handlers fork is as it was.
  os::register_fork_handlers(before_fork, after_fork_in_parent, after_fork_in_child);
  if (g_process.options.stats == Options::Stats::kExit) os::register_exit_handler(print_statistics);
  return true;
}

/// Leaves the fresh state: the thread gets a cache, or goes the direct way. \returns False when out
/// of memory.
bool start_thread() noexcept {
  if (!start_process()) return false;
  if (t_bins != &g_fresh_bins) return true;  // the registrations above allocated
  if (g_process.options.checks == Options::Checks::kFull) {
    t_bins = &g_direct_bins;
    return true;
  }
  ThreadCache* cache = g_process.engine.registry().adopt();
  if (cache == nullptr) return false;
  t_bins = cache;
  os::set_thread_exit_value(cache);  // may allocate: the cache is in place
  return true;
}

void* try_allocate_object(unsigned size_class) noexcept {
  if (t_bins == &g_fresh_bins && !start_thread()) return nullptr;
  if (void* object = t_bins->pop(size_class)) return object;  // an adopted cache is warm
  if (t_bins == &g_direct_bins) return g_process.engine.allocate_object(size_class);
  return static_cast<ThreadCache*>(t_bins)->refill_and_pop(size_class);
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
  return block;
}

}  // namespace

constinit Process g_process;
constinit thread_local ObjectBins* t_bins = &g_fresh_bins;

[[gnu::noinline]] void* allocate_slowly(std::size_t bytes) noexcept {
  if (const unsigned size_class = SizeClassMap::class_of(bytes))
    return allocate_object(size_class).address;
  return allocate_large(bytes, SizeClassMap::kGrain).address;
}

[[gnu::noinline]] void deallocate_slowly(void* p) noexcept {
  if (p == nullptr) return;
  Engine& engine = g_process.engine;
  const auto size_class = static_cast<unsigned>(engine.class_of(p));
  if (size_class == 0) {
    if (!engine.is_started()) fatal_pointer("invalid free of ", p, ": nothing was allocated yet");
    engine.deallocate_large(p);
  } else {
    if (t_bins == &g_fresh_bins) start_thread();
    if (t_bins == &g_fresh_bins || t_bins == &g_direct_bins) {
      engine.deallocate_object(size_class, p);
    } else if (!t_bins->push(size_class, p)) {
      if (t_bins->is_latest(size_class, p))
        fatal_pointer("double free of ", p, ": it was freed just before");
      static_cast<ThreadCache*>(t_bins)->flush_and_push(size_class, p);
    }
  }
  g_process.scavenger.notice();
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
  const Engine::Block block =
      size_class != 0 ? allocate_object(size_class) : allocate_large(total, SizeClassMap::kGrain);
  if (block.address != nullptr && !block.is_zero) std::memset(block.address, 0, total);
  return block.address;
}

void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment <= SizeClassMap::kGrain) return allocate(bytes);
  if (const unsigned size_class = SizeClassMap::class_of_aligned(bytes, alignment))
    return allocate_object(size_class).address;
  return allocate_large(bytes, alignment).address;
}

void* reallocate(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return allocate(bytes);
  Engine& engine = g_process.engine;
  const std::size_t old_bytes = engine.usable_bytes(p, "realloc");
  if (bytes == 0) {
    deallocate(p);
    return nullptr;
  }
  if (old_bytes <= SizeClassMap::kMaxBytes && engine.class_of(p) != 0) {
    // In place unless half of the object would lie idle.
    if (bytes <= old_bytes && bytes >= old_bytes / 2) return p;
  } else if (void* resized = engine.resize_large(p, bytes)) {
    return resized;
  }
  void* moved = allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, p, bytes < old_bytes ? bytes : old_bytes);
  deallocate(p);
  return moved;
}

std::size_t usable_bytes(const void* p) noexcept {
  return p == nullptr ? 0 : g_process.engine.usable_bytes(p, "malloc_usable_size");
}

bool release_memory() noexcept {
  if (!g_is_started.load(std::memory_order_acquire)) return false;
  ThreadCache* cache = own_cache();
  const bool flushed = cache != nullptr && cache->flush_all();
  return g_process.engine.release_all() || flushed;
}

}  // namespace strata
