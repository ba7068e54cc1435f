#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/backoff.h"
#include "base/fatal.h"
#include "base/lock.h"
#include "guard/allocation.h"
#include "guard/empty_blocks.h"
#include "guard/guards.h"
#include "malloc/checked_heap.h"
#include "malloc/detour.h"
#include "malloc/engine.h"
#include "malloc/guard_watcher.h"
#include "malloc/hot_path.h"
#include "malloc/malloc_host.h"
#include "malloc/options.h"
#include "malloc/profiler.h"
#include "malloc/scavenger.h"
#include "malloc/spare_memory.h"
#include "thread_cache/object_bins.h"
#include "thread_cache/thread_state.h"

namespace strata {

/// Whether a call must not wait for a lock: a signal handler interrupted the malloc in its own
/// thread, or the process has died with locks held. Then spare memory serves allocations, a freed
/// block of the heap is lost, and queries that need the heap answer no.
inline bool must_not_wait() noexcept { return is_any_lock_held_here() || has_died_with_locks(); }

/// Implements malloc, realloc, calloc and free. It owns an engine and what may come between it and
/// the program: full checks, guard pages, a profile, the scavenger. The hot path is inline; every
/// other path is a call away.
///
/// Nothing here is global. The process has one (process.h), each user heap another; tests make as
/// many as they like, over page sources and threads of their own. A thread is its ThreadState,
/// which each call names.
/// \threads  Any number at once, each with its own ThreadState.
class MallocInstance {
 public:
  constexpr MallocInstance(const Engine::Ground& ground, PageMap& map, SpareMemory& spare,
                           MallocHost& host) noexcept
      : engine_(ground, map),
        empties_(ground.pages, engine_.metadata()),
        checked_(engine_),
        guards_(ground.pages, engine_.metadata(), engine_.limit()),
        guard_watcher_(guards_),
        detour_(engine_, fresh_bins()),
        profiler_(engine_, detour_),
        scavenger_(engine_),
        spare_(spare),
        host_(host) {}
  MallocInstance(const MallocInstance&) = delete;
  MallocInstance& operator=(const MallocInstance&) = delete;

  /// The state of a thread that has not called yet.
  static constexpr ThreadState new_thread() noexcept {
    return {&fresh_bins(), &fresh_bins(), &fresh_bins()};
  }
  /// The state of a thread that gets no cache: each of its calls takes locks.
  static ThreadState uncached_thread() noexcept {
    return {&direct_bins(), &direct_bins(), &direct_bins()};
  }

  /// The thread's bins, if malloc and free may both use them without further checks; otherwise
  /// nullptr.
  static ObjectBins* bins_of(ThreadState& thread) noexcept;

  /// Starts the malloc.
  /// \pre      one thread at a time, and not started
  /// \returns  False when out of memory; it can be tried again, and options() are known.
  bool start(const Options& options, std::uint64_t seed) noexcept;
  bool is_started() const noexcept { return is_started_.load(std::memory_order_acquire); }
  /// Starts it if it is not started.
  /// \pre      !must_not_wait()
  /// \returns  False when out of memory.
  bool is_ready() noexcept { return is_started() || host_.start(*this); }
  /// Has the next allocation start it: somebody counts allocations.
  void count_from_now_on() noexcept { is_looked_at_.store(true, std::memory_order_relaxed); }

  /// malloc.
  /// \returns  nullptr with errno ENOMEM when out of memory
  void* allocate(ThreadState& thread, std::size_t bytes) noexcept {
    if (void* const object = HotPath::pop(thread, bytes)) return object;
    if (void* const object = HotPath::pop_beyond_table(thread, bytes))
      return FreeObject(object).address();
    return allocate_slowly(thread, bytes);
  }
  /// free, and its forms that say more: operator delete, free_sized. What they say is verified if
  /// something knows better, and not used.
  /// \param caller  where free returns to, which may be the C library (os::may_start_thread);
  ///                nullptr: a call that the C library never makes
  void deallocate(ThreadState& thread, void* p, const FreeCall& call = {},
                  const void* caller = nullptr) noexcept {
    if (!HotPath::push(thread, engine_.map(), p) && p != nullptr)
      deallocate_slowly(thread, p, call, caller);
  }

  /// The hot path of malloc(0) where a block of 0 bytes is an ordinary object.
  void* pop_for_nothing(ThreadState& thread) const noexcept {
    return has_empty_blocks() ? nullptr : thread.for_malloc().pop(SizeClassMap::class_of(0));
  }
  /// The hot path of malloc(0) where it is not, after the first such block.
  /// \returns  nullptr, too, if a watcher may choose the allocation
  void* take_empty(ThreadState& thread) noexcept {
    const bool may_be_chosen = thread.cache == nullptr || &thread.for_malloc() != thread.free_bins;
    return may_be_chosen ? nullptr : empties_.allocate_another();
  }
  /// Frees a block of 0 bytes.
  /// \returns  False if `p` is no such block.
  bool take_back_empty(const void* p) noexcept {
    if (!empties_.owns(p)) return false;
    empties_.deallocate(p);
    return true;
  }

  /// Pops from a thread's cache while allocations are watched or frees verified: for an allocation
  /// that HotPath did not serve.
  /// \returns  nullptr if that does not do
  void* pop_looked_at(ThreadState& thread, std::size_t bytes) noexcept {
    void* const object = pop_slowly(thread, SizeClassMap::bin_of(bytes));
    return object != nullptr ? FreeObject(object).address() : nullptr;
  }

  /// malloc's slow path: any size, any state of the thread and of the malloc, watched or not.
  [[gnu::always_inline]] void* allocate_slowly(
      ThreadState& thread, std::size_t bytes,
      Allocation::By by = Allocation::By::kMalloc) noexcept {
    const std::size_t bin = SizeClassMap::bin_of(bytes);
    if (void* const object = pop_slowly(thread, bin)) return FreeObject(object).address();
    return serve(thread, bytes != 0 ? static_cast<unsigned>(bin) : 1,
                 {bytes, SizeClassMap::kGrain, false, by})
        .address;
  }
  /// The same for a block in no size class.
  /// \pre  bytes > SizeClassMap::kMaxBytes
  void* allocate_block(ThreadState& thread, std::size_t bytes,
                       Allocation::By by = Allocation::By::kMalloc) noexcept;
  /// \pre  p != nullptr
  void deallocate_slowly(ThreadState& thread, void* p, const FreeCall& call,
                         const void* caller = nullptr) noexcept;
  /// Frees a live block on pages of its own.
  /// \returns  False if `p` is no such block.
  [[gnu::always_inline]] bool try_deallocate_pages(ThreadState& thread, const void* p,
                                                   const FreeCall& call,
                                                   const void* caller = nullptr) noexcept {
    Region* const region = engine_.map().region_of(p);
    Span* const pages = engine_.pages_of(p, region);
    if (pages == nullptr) return false;
    deallocate_pages(*region, *pages, thread, call, caller);
    return true;
  }

  /// calloc.
  /// \returns  nullptr with ENOMEM if the product overflows, too.
  void* allocate_zeroed(ThreadState& thread, std::size_t count, std::size_t bytes) noexcept;
  /// \param alignment  a power of two
  void* allocate_aligned(ThreadState& thread, std::size_t alignment, std::size_t bytes,
                         Allocation::By by = Allocation::By::kMalloc) noexcept;
  void* reallocate(ThreadState& thread, void* p, std::size_t bytes) noexcept {
    return reallocate(thread, engine_.map(), p, bytes);
  }
  /// The same, with the map at hand: a load less.
  void* reallocate(ThreadState& thread, const PageMap& map, void* p, std::size_t bytes) noexcept {
    const auto size_class = static_cast<unsigned>(map.class_of(p));
    if (!is_small(size_class)) [[unlikely]]
      return reallocate_slowly(thread, p, bytes);
    const std::size_t old_bytes = bytes_at_once(map, p, size_class, "realloc", thread.frees_left);
    if (old_bytes == 0) [[unlikely]]
      return reallocate_slowly(thread, p, bytes);
    return Engine::stays_in_place(old_bytes, bytes) ? p
                                                    : move(thread, size_class, p, old_bytes, bytes);
  }
  /// malloc_usable_size.
  /// \pre  `p` is in no other heap that shares the page map
  std::size_t usable_bytes(const void* p) noexcept { return usable_bytes(engine_.map(), p); }
  /// The same, with the map at hand: a load less.
  std::size_t usable_bytes(const PageMap& map, const void* p) noexcept {
    const std::size_t size_class = map.class_of(p);
    if (is_small(size_class)) [[likely]] {
      std::int32_t uncounted = INT32_MAX;
      const std::size_t bytes = bytes_at_once(map, p, size_class, "malloc_usable_size", uncounted);
      if (bytes != 0) [[likely]]
        return bytes;
    }
    return usable_bytes_slowly(p);
  }
  /// Makes at least `bytes` bytes usable at `p` in place; a block may stay larger.
  /// \returns  False, with nothing changed, if it would have to move.
  bool resize_in_place(void* p, std::size_t bytes) noexcept;
  /// Releases everything idle, including the objects in all threads' caches.
  /// \returns  true if anything was released
  bool release_memory(ThreadState& thread) noexcept;
  /// The same, called by another malloc that needs memory.
  /// \pre  !must_not_wait()
  void release_memory_for_others() noexcept {
    if (!is_started()) return;
    checked_.flush_quarantine();
    engine_.release_all();
  }

  /// Called as the process ends. Cached objects go to their spans, which verify them, unless each
  /// free was verified; under full checks, everything watched is verified.
  /// \pre     !must_not_wait()
  /// \errors  Misuse is fatal, with its sentence.
  void verify_at_exit(ThreadState& thread) noexcept;
  /// Under full checks, verifies the fill around and in all objects, live and freed.
  void verify_objects() noexcept;

  /// Guards one in `rate` allocations from now on. Call once, with stacks prepared.
  /// \returns  False when out of memory.
  bool begin_guards(std::size_t rate, std::uint64_t seed) noexcept;

  /// Whether `p` points into memory of this malloc.
  /// \cost  as Engine::owns()
  bool owns(const void* p) noexcept {
    return guards_.owns(p) || empties_.owns(p) || engine_.owns(p);
  }
  /// Whether `p` points into the spare memory, which several heaps may share.
  bool is_spare(const void* p) const noexcept { return spare_.owns(p); }

  /// Ends a thread: its cache is parked, or lost if that would have to wait; its later calls use no
  /// cache.
  void end_thread(ThreadState& thread) noexcept;
  /// The same, for a caller that holds another lock: does no other due work.
  /// \pre  no lock of this malloc is held
  void end_thread_alone(ThreadState& thread) noexcept;

  /// Has the next slow path call MallocHost::attend().
  void ask_for_attention() noexcept { needs_attention_.store(true, std::memory_order_relaxed); }

  void hold_locks_for_fork() noexcept;
  /// In the child of a fork, whose only thread is `thread`; no lock is held any more.
  void reset_after_fork(ThreadState& thread) noexcept;

  /// Engine::forget_all() and Engine::discard(), including what stands on the engine.
  void forget_all() noexcept;
  void discard() noexcept;

  Engine& engine() noexcept { return engine_; }
  CheckedHeap& checked() noexcept { return checked_; }
  const EmptyBlocks& empties() const noexcept { return empties_; }
  Guards& guards() noexcept { return guards_; }
  GuardWatcher& guard_watcher() noexcept { return guard_watcher_; }
  Detour& detour() noexcept { return detour_; }
  Profiler& profiler() noexcept { return profiler_; }
  Scavenger& scavenger() noexcept { return scavenger_; }
  /// Held during a round of the scavenger.
  Lock& round_lock() noexcept STRATA_RETURN_CAPABILITY(scavenger_.round_lock()) {
    return scavenger_.round_lock();
  }
  const Options& options() const noexcept { return options_; }
  bool has_full_checks() const noexcept { return options_.checks == Options::Checks::kFull; }
  /// Frees and calls of realloc verified with thread caches since the process began. Each thread
  /// adds some thousands at a time, and the rest as it ends.
  std::uint64_t verified_frees() const noexcept {
    return verified_.load(std::memory_order_relaxed);
  }
  /// Whether every free is verified, with thread caches.
  bool verifies_frees() const noexcept { return checks() == Options::Checks::kFrees; }

 private:
  /// The level in force: under kAuto, kFrees and later kBasic.
  Options::Checks checks() const noexcept { return checks_now_.load(std::memory_order_relaxed); }

  /// Whether an access to a block of 0 bytes is a fault; under kAuto this never ends.
  bool has_empty_blocks() const noexcept { return options_.checks != Options::Checks::kBasic; }
  // Chosen: the share of the heap that has to come back before: searching the whole heap for so
  // much takes less time than freeing it did.
  static constexpr std::size_t kVainShare = 256;
  // Chosen: a thread counts so many verified frees by itself. Reading the clock then costs each of
  // them a tenth of a nanosecond.
  static constexpr std::int32_t kFreesAtOnce = 4096;

  /// Whether a page map entry is that of a small object.
  static constexpr bool is_small(std::size_t size_class) noexcept {
    return size_class - 1 < SizeClassMap::kCount - 1;
  }
  /// Bytes of the small object at `p`.
  /// \param frees_left  the thread's; a verified call counts as a free
  /// \returns  0 if only the slow path can tell, or report the mistake: under full checks, and
  ///           where frees are verified and no live object starts there
  [[gnu::always_inline]] std::size_t bytes_at_once(const PageMap& map, const void* p,
                                                   std::size_t size_class, const char* action,
                                                   std::int32_t& frees_left) const noexcept {
    const Options::Checks now = checks();
    if (now == Options::Checks::kBasic) [[likely]] {
      const std::size_t bytes = engine_.object_bytes(p, size_class, action);
      if (bytes == 0) __builtin_unreachable();
      return bytes;
    }
    if (now != Options::Checks::kFrees || --frees_left < 0) return 0;
    const ObjectStates::Place place = map.states_of(p);
    const bool is_live =
        place != ObjectStates::kNoPlace && ObjectStates::is_live(ObjectStates::at(place, p), p);
    return is_live ? SizeClassMap::bytes_of(size_class) : 0;
  }

  /// The bins that malloc pops from before a thread's first call, and while a watcher looks.
  static constexpr ObjectBins& fresh_bins() noexcept { return EmptyBins::g_all.first(); }
  /// The bins of threads without a cache: they have ended, or full checks are on.
  static ObjectBins& direct_bins() noexcept { return EmptyBins::g_all[EmptyBins::kDirect]; }
  /// The bins of threads whose frees are verified, with their caches behind.
  static ObjectBins& verifying_bins() noexcept { return EmptyBins::g_all[EmptyBins::kVerifying]; }

  static bool is_fresh(const ThreadState& thread) noexcept {
    return thread.free_bins == &fresh_bins();
  }
  static bool is_gated(const ThreadState& thread) noexcept {
    return thread.free_bins == &verifying_bins();
  }

  /// Pops from the thread's own cache for an allocation that the hot path does not serve.
  /// \returns  as ObjectBins::pop()
  void* pop_slowly(ThreadState& thread, std::size_t size_class) noexcept {
    if (&thread.for_malloc() != thread.free_bins)
      return thread.pop_watched(static_cast<unsigned>(size_class));
    if (ObjectBins::is_exchanged(size_class)) return pop_exchanged(thread, size_class);
    return HotPath::pop_verified(thread, *thread.free_bins, engine_.map(), size_class);
  }
  void* pop_exchanged(ThreadState& thread, std::size_t size_class) noexcept;
  Engine::Block handed_out(Engine::Block block) noexcept {
    if (verifies_frees() && block.address != nullptr)
      HotPath::hand_out(engine_.map(), block.address);
    return block;
  }
  void count_verified(ThreadState& thread) noexcept;
  void bound_states() noexcept;
  void stop_verifying() noexcept;
  void open_gate(ThreadState& thread) noexcept;
  std::uint8_t state_of(const void* p) const noexcept;
  void expect_live(const void* p, unsigned size_class, const char* action) noexcept;
  bool take_back(void* p, unsigned size_class, const FreeCall& call, const void* caller) noexcept;

  void* allocate_empty(const Allocation& allocation) noexcept;
  void clear(void* p, std::size_t bytes) noexcept;

  FreeCall compared(FreeCall call) const noexcept;
  bool is_checked() noexcept { return is_ready() && has_full_checks(); }
  bool is_watched() noexcept;
  bool start_thread(ThreadState& thread) noexcept;
  /// Does the occasional work that is due.
  void after_slow_path(ThreadState& thread) noexcept;
  /// Whether work may be due after a call that holds no more than before.
  bool is_anything_due() noexcept { return engine_.limit().has_soft_limit() || is_thread_due(); }
  /// Whether the scavenger, or the host, wants to start a thread.
  bool is_thread_due() const noexcept {
    return scavenger_.is_due() || needs_attention_.load(std::memory_order_relaxed);
  }
  void deallocate_pages(Region& region, Span& pages, ThreadState& thread, const FreeCall& call,
                        const void* caller) noexcept;
  void look_after_what_is_due(ThreadState& thread, const void* caller) noexcept;
  void keep_to_soft_limit() noexcept {
    engine_.keep_to_soft_limit([this] { checked_.flush_quarantine(); });
  }
  void attend() noexcept;
  /// Counts a slow path of an allocation; the cache counts objects that came from spans.
  void count_towards_window(ThreadState& thread) noexcept {
    if (thread.cache != nullptr && --thread.cache->countdown() < 0) [[unlikely]]
      open_window(thread, thread.cache->countdown());
  }
  void open_window(ThreadState& thread, std::int64_t& countdown) noexcept;
  /// Counts a block beyond the size classes; returns whether to guard it.
  bool is_block_chosen(ThreadState& thread, std::size_t bytes) noexcept {
    return guard_watcher_.chooses_block(
        bytes, thread.cache != nullptr ? &thread.cache->blocks_left() : nullptr);
  }
  bool ends_window(ThreadState& thread) noexcept;
  Engine::Block serve_guarded(ThreadState& thread, const Allocation& allocation) noexcept;
  Engine::Block serve_guarded_block(ThreadState& thread, const Allocation& allocation) noexcept;
  bool is_known_without_lock(const void* p) const noexcept;
  bool make_room(ThreadState& thread, std::size_t bytes, std::uint64_t& pass_ns) noexcept;
  void note_vain_pass(std::uint64_t ns) noexcept;
  template <typename Try>
  Engine::Block serve_or_make_room(ThreadState& thread, std::size_t bytes, Try attempt) noexcept;

  Engine::Block serve_slowly(ThreadState& thread, unsigned size_class,
                             const Allocation& allocation) noexcept;
  Engine::Block serve(ThreadState& thread, unsigned size_class,
                      const Allocation& allocation) noexcept;
  Engine::Block serve_spare(const Allocation& allocation) noexcept;
  Engine::Block serve_before_start(const Allocation& allocation) noexcept;
  Engine::Block serve_watched(ThreadState& thread, unsigned size_class,
                              const Allocation& allocation) noexcept;
  Engine::Block serve_checked(ThreadState& thread, const Allocation& allocation) noexcept;
  Engine::Block serve_object(ThreadState& thread, unsigned size_class) noexcept;
  Engine::Block serve_large(ThreadState& thread, const Allocation& allocation,
                            bool is_chosen) noexcept;
  Engine::Block try_serve_object(ThreadState& thread, unsigned size_class) noexcept;
  std::size_t usable_bytes(const void* p, const char* action) noexcept;
  std::size_t usable_bytes_slowly(const void* p) noexcept;
  void* resize_or_move(ThreadState& thread, void* p, std::size_t bytes) noexcept;
  void* move(ThreadState& thread, unsigned size_class, void* p, std::size_t old_bytes,
             std::size_t bytes) noexcept;
  void* pop_verified_to_move(ThreadState& thread, const void* p, std::size_t old_bytes,
                             std::size_t bytes) noexcept;
  void* allocate_grown(ThreadState& thread, std::size_t bytes) noexcept;
  void* reallocate_slowly(ThreadState& thread, void* p, std::size_t bytes) noexcept;
  void* resize_large(ThreadState& thread, void* p, std::size_t bytes) noexcept;
  bool shrinks_to_object(std::size_t old_bytes, std::size_t bytes) noexcept;

  Engine engine_;
  EmptyBlocks empties_;  // serves malloc(0), unless nothing is checked
  CheckedHeap checked_;  // serves every call under STRATA_CHECKS=full
  Guards guards_;
  GuardWatcher guard_watcher_;
  Detour detour_;
  Profiler profiler_;
  Scavenger scavenger_;
  Options options_;
  // Changes once under kAuto. A thread that sees the change leaves the states of objects as they
  // are; threads to which it hands the objects see it, too (verified_frees.cpp).
  std::atomic<Options::Checks> checks_now_{Options::Checks::kBasic};
  std::atomic<std::uint64_t> verified_{0};  // relaxed: a sum
  // Whether this process is the child of a fork and its parent had more threads. Changes only while
  // the child has one thread.
  bool has_lost_threads_ = false;
  SpareMemory& spare_;
  MallocHost& host_;
  // release after the engine is ready, acquire before its first use.
  std::atomic<bool> is_started_{false};
  std::atomic<bool> is_looked_at_{false};     // relaxed: only the thread that looks needs it
  std::atomic<bool> needs_attention_{false};  // relaxed: a hint
  // Begun by the last release in vain; how much was idle after that. relaxed: a hint.
  Backoff release_backoff_;
  std::atomic<std::size_t> vain_idle_bytes_{0};
};

}  // namespace strata
