#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/shared_limit.h"
#include "base/thread_annotations.h"
#include "malloc/fork.h"
#include "malloc/heap_profile.h"
#include "malloc/options.h"
#include "os/faults.h"
#include "os/page_source.h"
#include "span/heap_names.h"
#include "span/page_map.h"
#include "user_heap/bookkeeping_pages.h"
#include "user_heap/heap_reclaimer.h"
#include "user_heap/heap_thread.h"
#include "user_heap/kept_mappings.h"
#include "user_heap/region_pool.h"
#include "user_heap/user_heap.h"

namespace strata {

/// The page map of all heaps, which their hot paths read.
extern constinit PageMap g_heap_map;

/// The live heaps, by number, and the threads that use them. The process has one. It owns what
/// heaps share: pools of regions and bookkeeping, the reclaimer, the limit.
/// \threads  Any number at once; one lock, which comes before those of every heap.
class HeapTable final : public HeapNames, public ForkParty, public HeapProfile::Heaps {
 public:
  enum class Outcome : std::uint8_t { kMade, kNoMemory, kTooMany, kNoKey };

  explicit constexpr HeapTable(os::PageSource& pages) noexcept
      : pages_(pages),
        metadata_(pages),
        bookkeeping_(pages),
        mallocs_(bookkeeping_, sizeof(MallocInstance)),
        regions_(g_heap_map, pages),
        reclaimer_(*this),
        own_profile_(metadata_) {}

  UserHeap* create(const Heap::Options& options, Outcome& outcome) noexcept;
  /// Ends a heap: clears its entries in all threads' tables, then gives back its memory, then its
  /// number.
  /// \threads  no thread is in a call about the heap
  void destroy(UserHeap& heap) noexcept;

  /// Called as the process ends: verifies every heap.
  /// \errors  Misuse is fatal, with its sentence, which names the heap.
  void verify_at_exit() noexcept;

  /// The calling thread's use of the heap; made if there is none.
  /// \returns  nullptr if it has none: out of memory, or the thread is about to end.
  /// \pre      the heap's malloc is made
  HeapUse* use_here(UserHeap& heap) noexcept;

  /// The first heap from `number` on that has made its malloc; nullptr if there is none.
  /// \pre  the lock is held
  UserHeap* next_made(std::size_t number) noexcept STRATA_REQUIRES(lock_);
  /// Calls function(UserHeap&) for each that has.
  /// \pre  the same
  template <typename Function>
  void for_each_made(Function function) noexcept STRATA_REQUIRES(lock_) {
    for (UserHeap* heap = next_made(0); heap != nullptr;
         heap = next_made(std::size_t{heap->number()} + 1))
      function(*heap);
  }

  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }
  RegionPool& regions() noexcept { return regions_; }
  BookkeepingPages& bookkeeping() noexcept { return bookkeeping_; }
  KeptMappings& mallocs() noexcept { return mallocs_; }
  os::PageSource& pages() noexcept { return pages_; }
  HeapReclaimer& reclaimer() noexcept { return reclaimer_; }
  /// The limit of the process, nullptr if there is none.
  SharedLimit* limit() const noexcept { return limit_; }
  /// The environment's setting for random numbers.
  std::size_t random() const noexcept { return random_; }

  /// The profile of the process's malloc, or our own if that malloc is not Strata's.
  HeapProfile& profile() noexcept;
  bool start_profile(std::size_t rate) noexcept;
  void stop_profile() noexcept;
  /// Called for a heap that has just made its malloc: watches it if the profile is on.
  void follow_profile(UserHeap& heap) noexcept;

  // SharedLimit::Holders: heaps by number.
  SharedLimit::Idle next_idle(SharedLimit::Idle last) noexcept;
  std::size_t next_number(std::size_t from) noexcept;
  void give_back(std::size_t number) noexcept;

  // HeapProfile::Heaps.
  void begin_watches() noexcept override;
  void end_watches() noexcept override;

  // HeapNames.
  bool find_owner(const void* p, HeapNumber& owner) noexcept override;
  void write_name(HeapNumber heap, TextWriter& out) noexcept override;

  // ForkParty.
  void before_fork() noexcept override STRATA_NO_THREAD_SAFETY_ANALYSIS;
  void after_fork_in_child() noexcept override STRATA_NO_THREAD_SAFETY_ANALYSIS;

 private:
  bool start() noexcept STRATA_REQUIRES(lock_);
  void read_environment_once() noexcept;
  static SharedLimit* ask_loader() noexcept;
  void read_environment(SharedLimit* of_malloc) noexcept;
  void prepare_guards() noexcept;
  // Not analysed: the heap's lock is taken under ours and given back after it.
  template <typename Function>
  void with_heap(std::size_t number, Function function) noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS;
  UserHeap* guarding_heap(const void* p) noexcept;
  static bool explain(const os::Fault& fault) noexcept;
  static void name_heap_of(const void* p, TextWriter& sentence) noexcept;
  HeapThread* this_thread() noexcept;
  static void hide_bins(UserHeap& heap) noexcept;
  void remove(HeapUse& use) noexcept STRATA_REQUIRES(lock_);
  void forget(HeapThread& thread) noexcept;
  static void on_thread_exit(void* thread) noexcept;

  static SharedLimit::Holders holders_;

  os::PageSource& pages_;
  Lock lock_{LockRank::kHeapTable};
  MetadataArena metadata_;        // heaps themselves
  BookkeepingPages bookkeeping_;  // further bookkeeping of used heaps
  KeptMappings mallocs_;          // of these pages, those of MallocInstances; keeps a few
  RegionPool regions_;
  HeapReclaimer reclaimer_;
  HeapProfile own_profile_;
  SharedLimit own_limit_;  // if the malloc is not Strata's
  // Written before there is a heap.
  SharedLimit* limit_ = nullptr;
  // Whether the environment was read. release by the thread that has read it, acquire by the
  // others.
  static constexpr std::uint32_t kUnread = 0;
  static constexpr std::uint32_t kReading = 1;
  static constexpr std::uint32_t kRead = 2;
  std::atomic<std::uint32_t> environment_{kUnread};
  bool is_started_ STRATA_GUARDED_BY(lock_) = false;
  bool has_map_ STRATA_GUARDED_BY(lock_) = false;
  bool has_guards_ STRATA_GUARDED_BY(lock_) = false;
  unsigned exit_key_ = 0;
  std::size_t random_ = Options::kRandomOn;  // written before there is a heap
  IntrusiveList<HeapThread> threads_ STRATA_GUARDED_BY(lock_);
  // Heaps in destroy(): the limit counts what they hold.
  IntrusiveList<UserHeap> ending_ STRATA_GUARDED_BY(lock_);
  // How many numbers were given back, and the least one that was never used.
  std::size_t returned_count_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t next_number_ STRATA_GUARDED_BY(lock_) = 1;
};

extern constinit HeapTable g_heap_table;

}  // namespace strata
