#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "span/page.h"
#include "thread_cache/object_bins.h"
#include "thread_cache/thread_state.h"

namespace strata {

class UserHeap;
class HeapThread;

struct OfThreadTag;
struct OfHeapTag;

/// One thread's use of one heap: its state there, with its cache. It lies in the heap's own
/// bookkeeping.
struct HeapUse : ListLink<OfThreadTag>, ListLink<OfHeapTag> {
  ThreadState state;
  UserHeap* heap;
  HeapThread* thread;
  std::uint32_t calls = 0;  ///< of the slow paths; nested if handlers interrupt them
};

/// The calling thread's table.
extern constinit thread_local char* t_heap_table;

/// One thread's uses of all heaps: a table from a heap's number to the thread's bins. It has room
/// for every number, and is touched only for heaps in use. It begins with bins that are empty for
/// ever, and each entry says how far from them the heap's bins lie. So an entry that was never
/// written leads to the empty bins, which send every call to the slow path, and the hot paths need
/// no comparison (docs/decisions/0014).
///
/// A heap that ends clears its entries in the tables of all threads, since its number can be given
/// to another heap.
/// \threads  Its thread. The heap table's lock guards the list, and entries that other threads
///           clear: their owner does not read them then, since it is not in a call about that heap.
class HeapThread : public ObjectBins, public ListLink<> {
 public:
  // Chosen: 512 KiB of addresses per thread.
  static constexpr std::size_t kMostHeaps = 32768;  ///< number 0 belongs to none

  struct Entry {
    std::ptrdiff_t bins;  ///< from the table's begin; 0: the empty ones
    HeapUse* use;
  };

  // Chosen: where the entries begin; the table starts with this object.
  static constexpr std::size_t kEntries = 2048;
  static constexpr std::size_t kBytes = kEntries + kMostHeaps * sizeof(Entry);

  static constexpr std::size_t offset_of(HeapNumber number) noexcept {
    return kEntries + number * sizeof(Entry);
  }

  /// The calling thread's bins of a heap, by its offset_of().
  /// \cost  3 instructions more than bins with a known address
  [[gnu::always_inline]] static ObjectBins& bins_at(std::size_t offset) noexcept;

  /// The calling thread's use of a heap, nullptr if it has none.
  [[gnu::always_inline]] static HeapUse* use_here(HeapNumber number) noexcept {
    return reinterpret_cast<Entry*>(t_heap_table + offset_of(number))->use;
  }

  HeapUse* use_of(HeapNumber number) noexcept { return entry(number).use; }
  void set_use(HeapNumber number, HeapUse* use) noexcept { entry(number).use = use; }
  /// \param bins  nullptr: the empty ones
  void set_bins(HeapNumber number, ObjectBins* bins) noexcept {
    const std::ptrdiff_t distance = bins == nullptr ? 0 : reinterpret_cast<char*>(bins) - table();
    std::atomic_ref<std::ptrdiff_t>(entry(number).bins).store(distance, std::memory_order_relaxed);
  }

  IntrusiveList<HeapUse, OfThreadTag>& uses() noexcept { return uses_; }

 private:
  char* table() noexcept { return reinterpret_cast<char*>(this); }
  Entry& entry(HeapNumber number) noexcept {
    return *reinterpret_cast<Entry*>(table() + offset_of(number));
  }

  IntrusiveList<HeapUse, OfThreadTag> uses_;
};
static_assert(sizeof(HeapThread) <= HeapThread::kEntries, "the entries lie after the object");

/// An empty table, for threads before their first use of a heap and after their last.
extern char g_no_heap_table[HeapThread::kBytes];

inline ObjectBins& HeapThread::bins_at(std::size_t offset) noexcept {
  char* const table = t_heap_table;
  const std::ptrdiff_t bins =
      std::atomic_ref<std::ptrdiff_t>(*reinterpret_cast<std::ptrdiff_t*>(table + offset))
          .load(std::memory_order_relaxed);
  return *reinterpret_cast<ObjectBins*>(table + bins);
}

}  // namespace strata
