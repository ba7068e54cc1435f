#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guard/allocation.h"
#include "size_class/size_class_map.h"
#include "span/object_states.h"
#include "span/page.h"
#include "span/page_map.h"
#include "thread_cache/object_bins.h"
#include "thread_cache/thread_state.h"

namespace strata {

/// malloc and free with nothing but the thread's own bins and the page map: all inline, without a
/// call or a lock. If that does not suffice, the caller takes a slow path of the malloc.
///
/// Where frees are verified, the bins that malloc and free try first are empty and full for ever,
/// and the thread's cache stands behind them (ThreadState). So the first attempt has no test of
/// what is checked, and the second one goes on with what the first has computed.
/// \threads  The state's thread only, as for the bins.
class HotPath {
 public:
  /// The hot path of malloc: up to 1 KiB from the thread's bins; nullptr sends the caller to a slow
  /// path, here and below.
  /// \cost  16 instructions with its caller's return.
  [[gnu::always_inline]] static void* pop(ThreadState& thread, std::size_t bytes) noexcept {
    if (bytes > SizeClassMap::kMaxTableBytes) [[unlikely]]
      return nullptr;
    return thread.for_malloc().pop_plain(SizeClassMap::class_of_tiny(bytes));
  }
  /// The same and, where frees are verified, from the thread's cache.
  /// \cost  the same; 39 where frees are verified
  [[gnu::always_inline]] static void* pop_or_verify(ThreadState& thread, const PageMap& map,
                                                    std::size_t bytes) noexcept {
    if (bytes > SizeClassMap::kMaxTableBytes) [[unlikely]]
      return nullptr;
    const std::size_t size_class = SizeClassMap::class_of_tiny(bytes);
    ObjectBins& bins = thread.for_malloc();
    if (void* const object = bins.pop_plain(size_class)) [[likely]]
      return object;
    if (!has_cache_behind(thread, bins)) return nullptr;
    void* object = thread.verified_bins->pop_plain(out_of_sight(size_class));
    if (object == nullptr) return nullptr;
    hand_out(map, object);
    object = out_of_sight(object);
    if (object == nullptr) __builtin_unreachable();
    return object;
  }
  /// The hot path of free, for small objects. One comparison detects a pointer that is misaligned
  /// or not ours, another a double free of the bin's latest object.
  /// \returns  False where that does not do.
  /// \cost     19 instructions with its caller's return.
  [[gnu::always_inline]] static bool push(ThreadState& thread, const PageMap& map,
                                          void* p) noexcept {
    return thread.free_bins->push(map.class_of(p), p);
  }
  /// The same and, where frees are verified, into the thread's cache if the object is live.
  /// \returns  False where that does not do, or something is wrong: deallocate_slowly() says what.
  /// \cost     the same; 34 where frees are verified
  [[gnu::always_inline]] static bool push_or_verify(ThreadState& thread, const PageMap& map,
                                                    void* p) noexcept {
    const std::uintptr_t index = PageMap::index_of(p);
    const std::size_t size_class = map.class_at(index);
    if (thread.free_bins->push(size_class, p)) [[likely]]
      return true;
    return push_verified(thread, map, p, out_of_sight(index), out_of_sight(size_class));
  }
  /// The same for a call that states the object's size: where frees are verified, the size has to
  /// be of its class.
  [[gnu::always_inline]] static bool push_or_verify(ThreadState& thread, const PageMap& map,
                                                    void* p, std::size_t bytes) noexcept {
    const std::uintptr_t index = PageMap::index_of(p);
    const std::size_t size_class = map.class_at(index);
    if (thread.free_bins->push(size_class, p)) [[likely]]
      return true;
    return bytes <= SizeClassMap::kMaxTableBytes &&
           SizeClassMap::class_of_tiny(bytes) == size_class &&
           push_verified(thread, map, p, out_of_sight(index), out_of_sight(size_class));
  }

  /// The other half of the hot path: sizes beyond the table, up to 160 KiB.
  /// \returns  The object, marked if it is fresh.
  /// \cost  10 instructions more
  [[gnu::always_inline]] static void* pop_beyond_table(ThreadState& thread,
                                                       std::size_t bytes) noexcept {
    if (!is_beyond_table(bytes)) return nullptr;
    return thread.for_malloc().pop(SizeClassMap::class_of_step(bytes));
  }
  /// The same and, where frees are verified, from the thread's cache.
  [[gnu::always_inline]] static void* pop_beyond_table_or_verify(ThreadState& thread,
                                                                 const PageMap& map,
                                                                 std::size_t bytes) noexcept {
    if (!is_beyond_table(bytes)) return nullptr;
    const std::size_t size_class = SizeClassMap::class_of_step(bytes);
    ObjectBins& bins = thread.for_malloc();
    if (void* const object = bins.pop(size_class)) [[likely]]
      return object;
    return ObjectBins::is_exchanged(size_class)
               ? nullptr
               : pop_verified(thread, bins, map, out_of_sight(size_class));
  }
  [[gnu::always_inline]] static bool is_beyond_table(std::size_t bytes) noexcept {
    return bytes - (SizeClassMap::kMaxTableBytes + 1) <
           SizeClassMap::kMaxBytes - SizeClassMap::kMaxTableBytes;
  }

  /// The hot path of the aligned forms: sizes and alignments up to 32 KiB, from the thread's bins.
  /// \pre      the alignment is a power of two
  /// \returns  The object, marked if it is fresh; nullptr where that does not do.
  [[gnu::always_inline]] static void* pop_aligned(ThreadState& thread, std::size_t alignment,
                                                  std::size_t bytes) noexcept {
    // Nothing that is asked for becomes the largest number, and takes the slow path.
    const std::size_t last = SizeClassMap::aligned_bytes(bytes, alignment) - 1;
    if (last >= ObjectBins::kMaxPlainBytes) [[unlikely]]
      return nullptr;
    const std::size_t size_class = last < SizeClassMap::kMaxTableBytes
                                       ? SizeClassMap::class_of_tiny(last + 1)
                                       : SizeClassMap::class_of_step(last + 1);
    return thread.for_malloc().pop_plain(size_class);
  }
  /// What pop_aligned() leaves: larger objects and, where frees are verified, the thread's cache.
  static void* pop_aligned_or_verify(ThreadState& thread, const PageMap& map, std::size_t alignment,
                                     std::size_t bytes) noexcept {
    if (bytes == 0) return nullptr;
    const unsigned size_class = SizeClassMap::class_of_aligned(bytes, alignment);
    ObjectBins& bins = thread.for_malloc();
    return ObjectBins::is_exchanged(size_class) ? bins.pop_exchanged(size_class)
                                                : pop_verified(thread, bins, map, size_class);
  }

  /// free where every free is verified (STRATA_CHECKS=frees), for a call that says more than free.
  /// \returns  False where that does not do, or something is wrong: deallocate_slowly() says what.
  [[gnu::always_inline]] static bool push_verified(ThreadState& thread, const PageMap& map, void* p,
                                                   const FreeCall& call) noexcept {
    const std::uintptr_t index = PageMap::index_of(p);
    const std::size_t size_class = map.class_at(index);
    if (call.says_bytes() && call.size_class() != size_class) return false;
    return push_verified(thread, map, p, index, size_class);
  }
  /// \param index       the number of its page
  /// \param size_class  the page map's; the bin of 0 has no room
  [[gnu::always_inline]] static bool push_verified(ThreadState& thread, const PageMap& map, void* p,
                                                   std::uintptr_t index,
                                                   std::size_t size_class) noexcept {
    ObjectBins& bins = *thread.verified_bins;
    void** const top = bins.top(size_class);
    if (bins.is_limit(top, size_class) || --thread.frees_left < 0) return false;
    ObjectStates::State& state = ObjectStates::at(map.states_at(index), p);
    if (!ObjectStates::is_live(state, p)) return false;
    // Before the push: a signal handler may pop it from then on.
    state.store(ObjectStates::kFreed, std::memory_order_relaxed);
    bins.push_on(top, size_class, p);
    return true;
  }

  /// malloc where every free is verified, from the thread's cache after `bins` were empty.
  /// \pre      !ObjectBins::is_exchanged(size_class)
  /// \returns  as ObjectBins::pop(); nullptr where frees are not verified, or a watcher looks
  static void* pop_verified(ThreadState& thread, const ObjectBins& bins, const PageMap& map,
                            std::size_t size_class) noexcept {
    if (!has_cache_behind(thread, bins)) return nullptr;
    void* const object = thread.verified_bins->pop_plain(size_class);
    if (object != nullptr) [[likely]]
      hand_out(map, FreeObject(object).address());
    return object;
  }
  /// \pre  frees are verified
  static void hand_out(const PageMap& map, void* object) noexcept {
    ObjectStates::at(map.states_of(object), object)
        .store(ObjectStates::live_at(object), std::memory_order_relaxed);
  }

 private:
  /// Whether frees are verified and nobody watches, so that the thread's cache stands behind these
  /// bins.
  static bool has_cache_behind(const ThreadState& thread, const ObjectBins& bins) noexcept {
    return &bins == thread.free_bins;
  }
  /// Hides a value's origin from the compiler, so that it computes nothing from it on another hot
  /// path.
  template <typename Value>
  [[gnu::always_inline]] static Value out_of_sight(Value value) noexcept {
    asm("" : "+r"(value));
    return value;
  }
};

}  // namespace strata
