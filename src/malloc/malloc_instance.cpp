#include "malloc/malloc_instance.h"

#include <algorithm>
#include <cstring>

#include "base/fatal.h"
#include "os/clock.h"
#include "os/errors.h"
#include "os/resources.h"
#include "os/threads.h"

namespace strata {

bool MallocInstance::start(const Options& options, std::uint64_t seed) noexcept {
  options_ = options;
  if (has_full_checks() && !checked_.start(seed)) return false;
  if (!engine_.start(options_, seed, os::address_space_limit_bytes())) return false;
  checks_now_.store(options_.verifies_frees() ? Options::Checks::kFrees : options_.checks,
                    std::memory_order_relaxed);
  if (verifies_frees()) engine_.registry().put_before_caches(verifying_bins());
  guard_watcher_.configure(options.guard_rate, seed);
  if (has_empty_blocks() && engine_.lives_for_ever()) guard_watcher_.leave_empty_blocks();
  scavenger_.set_delay_ms(options.release_delay_ms);
  is_started_.store(true, std::memory_order_release);
  return true;
}

// Threads.

ObjectBins* MallocInstance::bins_of(ThreadState& thread) noexcept {
  ObjectBins* const bins = thread.cache;
  return bins == thread.free_bins && bins == &thread.for_malloc() ? bins : nullptr;
}

/// Ends the thread's fresh state: gives it a cache, or makes it bypass caches.
/// \returns  False when out of memory.
bool MallocInstance::start_thread(ThreadState& thread) noexcept {
  if (!is_ready()) return false;
  if (!is_fresh(thread)) return true;  // what the start itself allocated
  if (has_full_checks()) {
    thread.bypass_caches();
    return true;
  }
  ThreadRegistry& registry = engine_.registry();
  ThreadCache* cache = registry.adopt(&thread);
  if (cache == nullptr) return false;
  if (cache != thread.cache) {  // a signal handler adopted another
    registry.park(*cache);
    return true;
  }
  if (is_gated(thread)) thread.frees_left = kFreesAtOnce;
  // May allocate: the cache is in place.
  if (host_.follow_thread(*cache)) registry.enroll(*cache, thread);
  return true;
}

void MallocInstance::end_thread(ThreadState& thread) noexcept {
  if (must_not_wait()) return thread.bypass_caches();  // lost, with what it holds
  end_thread_alone(thread);
  after_slow_path(thread);
}

void MallocInstance::end_thread_alone(ThreadState& thread) noexcept {
  if (is_gated(thread)) count_verified(thread);
  // What the C library itself frees after this goes the direct way.
  if (ThreadCache* const cache = thread.cache) {
    engine_.registry().park(*cache);
  } else {
    thread.bypass_caches();
  }
}

void MallocInstance::after_slow_path(ThreadState& thread) noexcept {
  if (engine_.is_look_due() || is_anything_due()) [[unlikely]]
    look_after_what_is_due(thread, nullptr);
}

/// Does due work, with no lock of ours held. If the C library's free must not start a thread,
/// another slow path starts it.
[[gnu::noinline]] void MallocInstance::look_after_what_is_due(ThreadState& thread,
                                                              const void* caller) noexcept {
  WatchPause pause(thread);
  engine_.follow_growth(thread.cache);
  keep_to_soft_limit();
  if (!is_thread_due() || (caller != nullptr && !os::may_start_thread(caller))) return;
  scavenger_.notice();
  if (needs_attention_.load(std::memory_order_relaxed)) [[unlikely]]
    attend();
}

[[gnu::cold, gnu::noinline]] void MallocInstance::attend() noexcept {
  if (needs_attention_.exchange(false, std::memory_order_relaxed)) host_.attend();
}

// Allocating.

/// Whether allocations are counted. Starts the malloc to find out.
bool MallocInstance::is_watched() noexcept {
  if (!is_started_.load(std::memory_order_relaxed)) is_ready();
  return detour_.is_on();
}

/// pop_slowly() of an exchanged class.
/// \pre  nobody watches
void* MallocInstance::pop_exchanged(ThreadState& thread, std::size_t size_class) noexcept {
  if (!is_gated(thread)) return thread.free_bins->pop_exchanged(size_class);
  void* const object = thread.verified_bins->pop_exchanged(size_class);
  if (object != nullptr) HotPath::hand_out(engine_.map(), FreeObject(object).address());
  return object;
}

/// Serves an allocation that malloc's bins do not serve.
/// \pre  the size class is the one for its bytes and alignment
Engine::Block MallocInstance::serve_slowly(ThreadState& thread, unsigned size_class,
                                           const Allocation& allocation) noexcept {
  if (void* object = pop_slowly(thread, size_class)) return Engine::as_block(object);
  return serve(thread, size_class, allocation);
}

/// The same, if the thread's own bins do not serve it either.
/// \pre  the size class is the one for its bytes and alignment
Engine::Block MallocInstance::serve(ThreadState& thread, unsigned size_class,
                                    const Allocation& allocation) noexcept {
  if (must_not_wait()) [[unlikely]]
    return serve_spare(allocation);
  if (!is_started()) [[unlikely]] {
    const Engine::Block first = serve_before_start(allocation);
    if (first.address != nullptr) return first;
    if (!is_ready()) return serve_spare(allocation);
  }
  // Nobody has looked into a bin for them so far.
  if (allocation.bytes == 0 && size_class != 0 && !has_empty_blocks()) {
    void* object = thread.for_malloc().pop(size_class);
    if (object == nullptr) object = pop_slowly(thread, size_class);
    if (object != nullptr) return Engine::as_block(object);
  }
  if (thread.is_in_window && ends_window(thread)) {
    const Engine::Block guarded = serve_guarded(thread, allocation);
    if (guarded.address != nullptr) return guarded;
  }
  const Engine::Block watched = serve_watched(thread, size_class, allocation);
  if (watched.address != nullptr) return watched;
  if (allocation.bytes == 0) {
    if (void* const empty = allocate_empty(allocation)) return {empty, true};
  }
  if (is_checked()) return serve_checked(thread, allocation);
  return engine_.has_spans_for(size_class)
             ? serve_object(thread, size_class)
             : serve_large(thread, allocation, is_block_chosen(thread, allocation.bytes));
}

/// Counts an allocation while a watch is on.
/// \returns  the watcher's block if it was chosen; nullptr: serve it like any other
Engine::Block MallocInstance::serve_watched(ThreadState& thread, unsigned size_class,
                                            const Allocation& allocation) noexcept {
  if (!is_watched() || (is_fresh(thread) && !start_thread(thread))) return {nullptr, false};
  return detour_.allocate(thread, size_class, allocation);
}

Engine::Block MallocInstance::serve_checked(ThreadState& thread,
                                            const Allocation& allocation) noexcept {
  if (is_fresh(thread)) start_thread(thread);
  const Allocation said = allocation.as_said();
  const bool is_block = CheckedHeap::is_block(said.bytes);
  Engine::Block block{nullptr, false};
  if (is_block) block = serve_guarded_block(thread, said);
  if (block.address == nullptr) {
    block = serve_or_make_room(thread, said.bytes, [&] { return checked_.allocate(said); });
    if (block.address == nullptr && is_block) block = {guards_.blocks().allocate(said, true), true};
    if (block.address == nullptr) os::set_errno_no_memory();
  }
  after_slow_path(thread);
  return block;
}

Engine::Block MallocInstance::serve_object(ThreadState& thread, unsigned size_class) noexcept {
  const Engine::Block block = serve_or_make_room(thread, SizeClassMap::bytes_of(size_class), [&] {
    return try_serve_object(thread, size_class);
  });
  if (block.address == nullptr) os::set_errno_no_memory();
  return block;
}

Engine::Block MallocInstance::try_serve_object(ThreadState& thread, unsigned size_class) noexcept {
  if (is_fresh(thread) && !start_thread(thread)) return {nullptr, false};
  ThreadCache* const cache = thread.cache;
  if (cache != nullptr) {
    if (is_gated(thread) && !verifies_frees()) [[unlikely]]
      open_gate(thread);
    // The watch may have ended while its watcher was asked.
    if (&thread.for_malloc() != thread.free_bins && !detour_.is_on() && !thread.is_in_window)
      engine_.registry().undirect_malloc(thread);
    // An adopted cache is warm, and on the detour malloc has not looked.
    if (void* object = cache->pop(size_class)) return handed_out(Engine::as_block(object));
  }
  const Engine::Block block = cache != nullptr ? Engine::as_block(cache->refill_and_pop(size_class))
                                               : engine_.allocate_object(size_class);
  if (options_.checks == Options::Checks::kAuto && verifies_frees()) bound_states();
  count_towards_window(thread);
  after_slow_path(thread);
  return handed_out(block);
}

/// Mostly reuses what was just freed.
void* MallocInstance::allocate_block(ThreadState& thread, std::size_t bytes,
                                     Allocation::By by) noexcept {
  const auto allocation = [&] { return Allocation{bytes, SizeClassMap::kGrain, false, by}; };
  PageShard* const keeper = engine_.keeper_of(bytes, thread.pages);
  if (keeper == nullptr || !is_started() || thread.is_in_window || detour_.is_on() ||
      has_full_checks() || must_not_wait()) {
    return serve(thread, 0, allocation()).address;
  }
  const bool is_chosen = is_block_chosen(thread, bytes);
  const Span* const kept =
      is_chosen ? nullptr : engine_.allocate_kept(*keeper, bytes, thread.pages);
  if (kept == nullptr) return serve_large(thread, allocation(), is_chosen).address;
  // No more is held than before: what else is due is left to the next slow path.
  count_towards_window(thread);
  return kept->start;
}

/// \param is_chosen  by the guards
Engine::Block MallocInstance::serve_large(ThreadState& thread, const Allocation& allocation,
                                          bool is_chosen) noexcept {
  Engine::Block block{nullptr, false};
  if (allocation.bytes <= Engine::kMaxBytes && is_ready()) {
    if (is_chosen) block = serve_guarded_block(thread, allocation);
    if (block.address == nullptr)
      block = serve_or_make_room(thread, allocation.bytes, [&] {
        return engine_.allocate_large(allocation.bytes, allocation.alignment, thread.pages);
      });
  }
  if (block.address == nullptr) os::set_errno_no_memory();
  count_towards_window(thread);
  after_slow_path(thread);
  return block;
}

/// After an allocation failed: flushes this thread's cache to the spans, and releases idle memory.
/// Skips the release if it was in vain shortly before and little has come back since, as it visits
/// everything that is partly free. The next one finds what threads have freed into their caches
/// meanwhile.
/// \param pass_ns  how long the release took; 0: there was none
/// \returns  true if a second try may succeed
bool MallocInstance::make_room(ThreadState& thread, std::size_t bytes,
                               std::uint64_t& pass_ns) noexcept {
  ThreadCache* const cache = thread.cache;
  const bool has_flushed = cache != nullptr ? cache->flush_all() : checked_.flush_quarantine();
  const std::uint64_t began = os::monotonic_ns();
  if (release_backoff_.is_on(began)) {
    const std::size_t little = std::max(bytes, engine_.limit().held_bytes() / kVainShare);
    const std::size_t then = vain_idle_bytes_.load(std::memory_order_relaxed);
    if (engine_.idle_hint() < then + little) return has_flushed;
  }
  const bool has_released = release_memory(thread);
  pass_ns = os::monotonic_ns() - began + 1;
  return has_released || has_flushed;
}

void MallocInstance::note_vain_pass(std::uint64_t ns) noexcept {
  // Exact: the hint errs upwards, and may be less than it was once it is settled.
  vain_idle_bytes_.store(engine_.settle_idle_hint(), std::memory_order_relaxed);
  release_backoff_.begin(os::monotonic_ns(), ns);
}

/// Tries again after giving our own idle memory back to the kernel and, where a limit is shared,
/// that of others. Another thread may take it first, so it tries a few times.
template <typename Try>
Engine::Block MallocInstance::serve_or_make_room(ThreadState& thread, std::size_t bytes,
                                                 Try attempt) noexcept {
  constexpr int kMostTries = 4;
  Engine::Block block = attempt();
  if (block.address != nullptr || engine_.is_beyond_reach(bytes)) return block;
  std::uint64_t pass_ns = 0;
  if (make_room(thread, bytes, pass_ns)) block = attempt();
  if (block.address == nullptr && engine_.make_room_for_bookkeeping(bytes)) block = attempt();
  if (block.address == nullptr && pass_ns != 0) note_vain_pass(pass_ns);
  SharedLimit* const shared = engine_.limit().shared();
  for (int i = 0; block.address == nullptr && shared != nullptr && i < kMostTries; ++i) {
    if (!engine_.limit().has_room(bytes) || !shared->make_room(bytes)) break;
    block = attempt();
  }
  if (block.address == nullptr) engine_.note_refusal(bytes);
  return block;
}

void* MallocInstance::allocate_zeroed(ThreadState& thread, std::size_t count,
                                      std::size_t bytes) noexcept {
  std::size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    os::set_errno_no_memory();
    return nullptr;
  }
  if (total <= SizeClassMap::kMaxTableBytes) {
    void* object = allocate(thread, total);
    if (object != nullptr) std::memset(object, 0, total);
    return object;
  }
  const unsigned size_class = SizeClassMap::class_of(total);
  void* const popped = size_class != 0 ? thread.for_malloc().pop(size_class) : nullptr;
  const Engine::Block block =
      popped != nullptr ? Engine::as_block(popped)
                        : serve_slowly(thread, size_class, {total, SizeClassMap::kGrain, false});
  if (block.address != nullptr && !block.is_zero) clear(block.address, total);
  return block.address;
}

/// Zeroes a block that the program does not have yet.
void MallocInstance::clear(void* p, std::size_t bytes) noexcept {
  if (bytes > Engine::kMaxLargeBytes && !spare_.owns(p)) return engine_.huge().clear(p, bytes);
  std::memset(p, 0, bytes);
}

void* MallocInstance::allocate_aligned(ThreadState& thread, std::size_t alignment,
                                       std::size_t bytes, Allocation::By by) noexcept {
  // A small alignment matters only where it is compared with what a delete says. A block beyond
  // the size classes may be guarded at any time.
  const bool by_aligned_new = by != Allocation::By::kMalloc;
  const bool is_compared =
      is_started() &&
      (has_full_checks() || (by_aligned_new && (is_watched() || thread.is_in_window ||
                                                bytes > SizeClassMap::kMaxBytes)));
  if (alignment <= SizeClassMap::kGrain && !is_compared) return allocate(thread, bytes);
  const unsigned size_class = SizeClassMap::class_of_aligned(bytes, alignment);
  return serve_slowly(thread, size_class, {bytes, alignment, by_aligned_new, by}).address;
}

// Freeing and resizing.

/// The call as it is compared with the allocation, without what nobody asked to compare.
FreeCall MallocInstance::compared(FreeCall call) const noexcept {
  const bool has_asked_for_guards = !guard_watcher_.opens_windows();
  if (!options_.compares_frees() && !has_asked_for_guards) return {};
  call.keeps_to_its_kind = options_.mismatches == Options::Mismatches::kAll;
  return call;
}

/// Frees a block that is a page run: keeps its pages whole, unless a watcher, full checks or a held
/// lock require the slow path.
void MallocInstance::deallocate_pages(Region& region, Span& pages, ThreadState& thread,
                                      const FreeCall& call, const void* caller) noexcept {
  if (detour_.has_watchers() || has_full_checks() || must_not_wait()) [[unlikely]]
    return deallocate_slowly(thread, pages.start, call, caller);
  engine_.deallocate_pages(region, pages);
  if (is_anything_due()) [[unlikely]]
    look_after_what_is_due(thread, caller);
}

void MallocInstance::deallocate_slowly(ThreadState& thread, void* p, const FreeCall& call,
                                       const void* caller) noexcept {
  if (spare_.owns(p)) return spare_.deallocate(p);
  if (thread.frees_left < 0) [[unlikely]]
    count_verified(thread);
  const auto size_class = static_cast<unsigned>(engine_.class_of(p));
  if (size_class != 0 && verifies_frees()) {
    --thread.frees_left;
    if (!take_back(p, size_class, call, caller)) return;
  }
  if (must_not_wait()) return;  // lost
  if (size_class == 0) {
    if (empties_.owns(p))
      return empties_.deallocate(p, options_.compares_frees() ? call : FreeCall{});
    if (guards_.owns(p)) return guards_.deallocate(p, compared(call));
    if (detour_.has_watchers()) profiler_.forget(p);
  }
  if (is_checked()) {
    checked_.deallocate(p, size_class, compared(call));
  } else if (size_class == 0) {
    engine_.deallocate_large(p);
  } else {
    if (is_fresh(thread)) start_thread(thread);
    ThreadCache* const cache = thread.cache;
    if (cache == nullptr) {
      engine_.deallocate_object(size_class, p);
    } else if (!cache->push(size_class, p)) {
      if (cache->is_latest(size_class, p))
        fatal_pointer("double free of ", p, ": it was freed just before");
      cache->flush_and_push(size_class, p);
    }
  }
  if (engine_.is_look_due() || is_anything_due()) [[unlikely]]
    look_after_what_is_due(thread, caller);
}

/// Whether a block can be identified without a lock: by its address, and by the page map.
bool MallocInstance::is_known_without_lock(const void* p) const noexcept {
  return spare_.owns(p) || (engine_.class_of(p) != 0 && !has_full_checks());
}

/// Bytes usable at `p`, whichever part of the malloc it belongs to.
std::size_t MallocInstance::usable_bytes(const void* p, const char* action) noexcept {
  if (spare_.owns(p)) return spare_.usable_bytes(p, action);
  if (empties_.owns(p)) return empties_.expect_live(p, action), 0;
  if (guards_.owns(p)) return guards_.requested_bytes(p, action);
  if (is_checked()) return checked_.requested_bytes(p, action);
  if (verifies_frees()) expect_live(p, static_cast<unsigned>(engine_.class_of(p)), action);
  return engine_.usable_bytes(p, action);
}

std::size_t MallocInstance::usable_bytes_slowly(const void* p) noexcept {
  if (p == nullptr || (must_not_wait() && !is_known_without_lock(p))) return 0;
  return usable_bytes(p, "malloc_usable_size");
}

bool MallocInstance::release_memory(ThreadState& thread) noexcept {
  if (must_not_wait() || !is_started()) return false;
  ThreadCache* cache = thread.cache;
  const bool flushed = cache != nullptr ? cache->flush_all() : checked_.flush_quarantine();
  return engine_.release_all() != 0 || flushed;
}

bool MallocInstance::begin_guards(std::size_t rate, std::uint64_t seed) noexcept {
  if (!guards_.start(engine_.has_all_addresses())) return false;
  guard_watcher_.configure(rate, seed);
  detour_.begin(Detour::kByCalls, guard_watcher_);
  return true;
}

void MallocInstance::forget_all() noexcept {
  profiler_.forget_all();
  guards_.forget_all();
  checked_.forget_all();
  engine_.forget_all();
}

void MallocInstance::discard() noexcept {
  profiler_.forget_all();
  guards_.discard();
  engine_.discard();
}

void MallocInstance::verify_objects() noexcept {
  if (!has_full_checks()) return;
  guards_.verify_all();
  checked_.verify_all();
}

void MallocInstance::verify_at_exit(ThreadState& thread) noexcept {
  if (!is_started()) return;
  guards_.verify_all();
  if (has_full_checks()) return checked_.verify_all();
  if (verifies_frees()) return;  // each free so far was: no cache can have what is wrong
  if (ThreadCache* cache = thread.cache) cache->flush_all();
  engine_.registry().flush_parked();
  engine_.central().flush_transfer();
}

}  // namespace strata
