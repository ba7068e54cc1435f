#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "central/central.h"
#include "malloc/options.h"
#include "os/page_source.h"
#include "os/resources.h"
#include "span/huge_heap.h"
#include "span/page_heap.h"
#include "span/page_map.h"
#include "span/span_source.h"
#include "thread_cache/thread_registry.h"

namespace strata {

/// The layers of one malloc, put together. It owns all of them and picks one by size:
///
///   small   up to 160 KiB  objects of a size class, through a thread cache
///   large   up to 1 MiB    a run of pages of the page heap
///   huge    beyond         a mapping of its own, like a large one for which the map has no place
///
/// Nothing here is global: there may be any number of engines, each with a page map of its own or
/// sharing one. The process has one (process.h); a MallocInstance owns each. The caller passes in
/// the thread's bins.
/// \threads  Any number at once.
class Engine {
 public:
  /// An engine's page sources, and its number.
  struct Ground {
    os::PageSource& pages;
    /// Its number among the engines that share the page map. Number 0 has the map to itself,
    /// reserves it, and lives as long as the process; any other ends with discard().
    HeapNumber number = 0;
    /// Where regions come from, one by one, at addresses that a shared map covers.
    os::PageSource* regions = nullptr;
    /// Where huge blocks come from, if not from `pages`: then regions and they are the program's.
    os::PageSource* blocks = nullptr;
    /// Where bookkeeping comes from, if not from `pages`. The source never maps it beside the
    /// program's memory.
    os::PageSource* bookkeeping = nullptr;

    constexpr os::PageSource& of_regions() const noexcept { return number == 0 ? pages : *regions; }
    constexpr os::PageSource& of_blocks() const noexcept {
      return blocks == nullptr ? pages : *blocks;
    }
    constexpr os::PageSource& of_bookkeeping() const noexcept {
      return bookkeeping == nullptr ? pages : *bookkeeping;
    }
  };

  constexpr Engine(const Ground& ground, PageMap& map) noexcept
      : pages_(ground.pages),
        map_(map),
        shares_map_(ground.number != 0),
        lies_in_own_pages_(ground.blocks != nullptr),
        metadata_(ground.of_bookkeeping(), &limit_,
                  ground.number == 0 ? MetadataArena::Life::kForever
                                     : MetadataArena::Life::kUntilDiscarded),
        page_heap_(map, metadata_, limit_, ground.of_regions(), ground.number),
        spans_(map, page_heap_, metadata_, ground.of_regions()),
        huge_(page_heap_, metadata_, ground.of_blocks()),
        central_(spans_, metadata_),
        watched_spans_(map, page_heap_, metadata_, ground.of_regions(), SpanSource::Use::kWatched),
        watched_(watched_spans_, metadata_, false),
        registry_(central_, page_heap_, metadata_, Options{}.cache_bytes) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  static constexpr std::size_t kMaxLargeBytes = kRegionBytes / 2;
  // Chosen: a page is then at most twice as large as what realloc puts there; copying 32 KiB takes
  // longer than finding a page.
  static constexpr std::size_t kPagesForGrownFrom = kPageBytes / 2;
  // Chosen: a block that shrinks stays on its pages, or in its mapping, down to these sizes. If
  // they were the sizes from which it gets them, a block that shrinks and grows by a little would
  // be copied each time.
  static constexpr std::size_t kPagesStayFrom = kPagesForGrownFrom / 4 * 3;
  static constexpr std::size_t kMappingsStayFrom = kMaxLargeBytes / 2;
  // Chosen: blocks that have grown again on their page, and a few others, stay there down to this
  // size. Copying a shorter one takes little time.
  static constexpr std::size_t kShortStaysFrom = kPagesForGrownFrom / 8;
  /// No object is larger: differences of pointers into it fit ptrdiff_t.
  static constexpr std::size_t kMaxBytes = PTRDIFF_MAX;

  using Block = HugeHeap::Block;

  /// Reserves the page map and decides where the heap lives. Call once, before anything else. An
  /// engine that shares a page map has got its limits already, and ignores the options'.
  /// \param address_space  the process's limit
  /// \returns  False when out of memory; the next call tries again.
  bool start(const Options& options, std::uint64_t seed,
             std::size_t address_space = os::address_space_limit_bytes()) noexcept;
  std::size_t state_bytes() const noexcept { return spans_.state_bytes(); }
  bool is_started() const noexcept { return map_.limit() != 0; }
  /// Whether nothing limited the address space of the process (RLIMIT_AS) when the engine started.
  bool has_all_addresses() const noexcept {
    return has_all_addresses_.load(std::memory_order_relaxed);
  }

  /// The hot lookup of free; 0 for everything but small objects.
  std::size_t class_of(const void* p) const noexcept { return map_.class_of(p); }

  /// Whether `p` points into a region or a huge block of this engine.
  /// \cost  a look at every huge block, unless it is in a region
  bool owns(const void* p) noexcept {
    return owns_region_of(p) || huge_.place_of(p) == HugeHeap::Place::kInside;
  }
  /// Dies with a sentence if `p` points into a region of another heap.
  void expect_own_region(const char* action, const void* p) const noexcept {
    if (map_.region_of(p) != nullptr && !owns_region_of(p))
      spans_.die_if_of_another_heap(action, p);
  }
  /// Whether a live block is a mapping of its own.
  bool is_huge(const void* p) const noexcept { return !owns_region_of(p); }
  /// Whether it has the page map to itself, and lives as long as the process.
  bool lives_for_ever() const noexcept { return !shares_map_; }
  /// Whether it is a size class that is served from spans. Where the address space is tight, a
  /// class of large objects would take more of it than its objects do; they are page runs then.
  bool has_spans_for(unsigned size_class) const noexcept {
    return size_class - 1 < most_class_.load(std::memory_order_relaxed);
  }

  /// Allocates an object past the thread caches.
  /// \returns  Its address is nullptr when out of memory.
  Block allocate_object(unsigned size_class) noexcept;
  /// Turns an entry of a bin or a batch into a block for the program.
  static Block as_block(void* object) noexcept {
    const FreeObject taken(object);
    return {taken.address(), taken.is_fresh()};
  }
  /// Takes an object back into its span, which verifies it.
  void deallocate_object(unsigned size_class, void* p) noexcept {
    if (size_class == SizeClassMap::kHomeward) {
      central_.release_homeward(&p, 1);
    } else {
      central_.release_to_spans(size_class, &p, 1);
    }
  }

  /// Allocates an object of the class for a watcher: free and realloc of it take the slow path.
  /// Freed by deallocate_large().
  /// \returns  Its address is nullptr when out of memory.
  Block allocate_watched(unsigned size_class) noexcept;
  /// The record of the object at `p`, initially 0: of a watched object or, under full checks, of
  /// any small one. nullptr if no object with a record starts there.
  /// \pre  no other thread frees it meanwhile
  std::uint64_t* record_of(const void* p) const noexcept;

  /// Allocates a block beyond the size classes: larger, or of a larger alignment.
  /// \param alignment  a power of two
  /// \param place      here and below: the shard that gives the thread pages
  Block allocate_large(std::size_t bytes, std::size_t alignment, PagePlace& place) noexcept;
  Block allocate_large(std::size_t bytes, std::size_t alignment) noexcept {
    PagePlace first(0);
    return allocate_large(bytes, alignment, first);
  }
  /// Allocates a block that is likely to grow, where it can grow in place.
  /// \returns  nullptr if no place has room for that
  void* allocate_to_grow(std::size_t bytes, PagePlace& place) noexcept {
    if (bytes > kMaxLargeBytes) return huge_.allocate_to_grow(bytes);
    const Span* const span = page_heap_.allocate_to_grow(pages_for(bytes), place);
    return span != nullptr ? span->start : nullptr;
  }
  /// Takes back a block that is in no size class of the page map.
  /// \errors  A pointer that is no live block is fatal, with its sentence.
  void deallocate_large(void* p) noexcept;

  /// Whether a refused request would be refused even if all idle memory went back.
  /// \cost  up to three system calls
  bool is_beyond_reach(std::size_t bytes) const noexcept {
    return !limit_.allows(bytes) || (bytes > kMaxLargeBytes && os::is_beyond_machine(bytes));
  }

  /// Bytes usable at `p`, a live object or block of any size.
  /// \errors  A pointer that is neither is fatal, with its sentence; `action` is its first word.
  std::size_t usable_bytes(const void* p, const char* action) noexcept;

  /// The same for an object of the class that the page map has for its page.
  std::size_t object_bytes(const void* p, std::size_t size_class,
                           const char* action) const noexcept {
    if (size_class < kOnePageClasses ? !OnePageObjects::starts_at(p, size_class)
                                     : !map_.is_object(p, size_class)) [[unlikely]]
      die_of_no_object(p, action);
    return SizeClassMap::bytes_of(size_class);
  }

  /// Whether realloc leaves an object in place: unless half of it would lie idle.
  static constexpr bool stays_in_place(std::size_t object_bytes, std::size_t bytes) noexcept {
    return bytes <= object_bytes && bytes >= object_bytes / 2;
  }

  /// Whether a live block that is not short has pages of its own, and would need as many for
  /// `bytes`.
  /// \cost  13 instructions, no lock
  bool fits_its_pages(const void* p, std::size_t bytes) const noexcept {
    const Span* const span = pages_of(p, map_.region_of(p));
    return bytes >= kPagesStayFrom && span != nullptr && needs_all(*span, bytes) && !span->is_short;
  }
  /// Resizes a live block that keeps all its pages, short or not, as resize_large() does.
  /// \returns  false, with nothing changed, for any other address, too
  /// \cost     no lock
  bool resize_on_its_pages(const void* p, std::size_t bytes) noexcept {
    Span* const span = pages_of(p, map_.region_of(p));
    return span != nullptr && needs_all(*span, bytes) && may_stay_on(*span, bytes);
  }

  /// Resizes a live huge block that stays in its mapping as it is, as resize_large() does.
  /// \returns  false, with nothing changed, for any other address, too
  /// \cost     2 instructions for a small size; a hash probe under a lock for what may be huge
  bool resize_in_mapping(const void* p, std::size_t bytes) noexcept {
    return bytes >= kMappingsStayFrom && map_.region_of(p) == nullptr &&
           huge_.resize_in_place(p, bytes);
  }

  /// The pages of a live block with pages of its own in this region; nullptr for any other address.
  Span* pages_of(const void* p, Region* region) const noexcept {
    if (region == nullptr || !page_heap_.owns(*region)) return nullptr;
    const std::size_t page = (reinterpret_cast<std::uintptr_t>(p) >> kPageShift) % kPagesPerRegion;
    Span& span = region->spans[page];
    const bool is_block =
        region->head_of_page[page] == page && span.start == p && span.size_class == 0;
    return is_block ? &span : nullptr;
  }
  /// Takes back such pages.
  /// \errors  It is fatal if another thread did just now.
  void deallocate_pages(Region& region, Span& pages) noexcept {
    if (const Span* const gone = page_heap_.keep(region, pages)) [[unlikely]]
      die_of_no_object(gone->start, "free");
  }
  /// The page shard that may keep a freed run for a block of so many bytes: a hint.
  /// \returns  nullptr if there are none
  /// \pre  here and in the next: bytes != 0
  PageShard* keeper_of(std::size_t bytes, const PagePlace& place) noexcept {
    return bytes <= kMaxLargeBytes ? page_heap_.keeper_of(pages_for(bytes), place) : nullptr;
  }
  /// Allocates such a kept run.
  /// \pre      bytes <= kMaxLargeBytes
  /// \returns  nullptr if there are none any more
  const Span* allocate_kept(PageShard& keeper, std::size_t bytes, PagePlace& place) noexcept {
    return page_heap_.allocate_kept(keeper, pages_for(bytes), place);
  }

  /// Resizes a block that is in no size class of the page map, in place or, if it is huge, by
  /// growing into the kept range behind it or by remapping.
  /// \returns  The block, moved or not; nullptr if the caller has to allocate, copy and free.
  void* resize_large(void* p, std::size_t bytes) noexcept;

  /// Releases everything idle, now: decommits pages and unmaps kept ranges.
  /// \returns  bytes
  std::size_t release_all() noexcept;
  /// Called where an allocation failed although everything idle was released: addresses that the
  /// kernel refuses to bookkeeping may be those of free regions.
  /// \param bytes  what was requested
  /// \returns  whether one was unmapped
  bool make_room_for_bookkeeping(std::size_t bytes) noexcept;
  /// Called when a request for so many bytes is refused for good.
  void note_refusal(std::size_t bytes) noexcept { page_heap_.note_refusal(bytes); }
  /// Releases what was not needed since the last call, by the layers' own counts.
  /// \returns  bytes
  std::size_t release_unneeded() noexcept;
  /// Free bytes that release_unneeded() might release; a part may turn out to be needed.
  /// \cost  some loads per class and shard, no lock
  std::size_t idle_bytes() const noexcept {
    return idle_outside_spans() + central_.idle_bytes() + watched_.idle_bytes();
  }
  /// An estimate of it, off by some bytes for each class and shard.
  /// \cost  five loads, and one per shard of pages
  std::size_t idle_hint() const noexcept {
    return idle_outside_spans() + Central::pending_hint(central_, watched_);
  }

  /// Whether so much may be idle: a hint that errs upwards. Reads nothing that each allocation of
  /// another thread writes.
  /// \cost  five loads
  bool may_have_idle(std::size_t bytes) const noexcept {
    return huge_.kept_bytes() + registry_.parked_bytes() +
               Central::pending_hint(central_, watched_) + page_heap_.most_idle_bytes() >=
           bytes;
  }

  /// idle_hint(), made exact until enough has changed again.
  /// \cost  a lock per class and shard
  std::size_t settle_idle_hint() noexcept {
    page_heap_.settle_idle();
    return idle_outside_spans() + central_.settle_pending_hint() + watched_.settle_pending_hint();
  }

  /// Whether so much is idle that it must be returned, once may_have_idle() has said so. If as much
  /// comes and goes all the time, the hint soon is as high again; then this is true as well, and
  /// whoever returns memory looks later. A few times, drops hardly touched kept blocks instead.
  /// \cost  as settle_idle_hint(), and some system calls for each kept range
  bool has_idle(std::size_t bytes) noexcept;

  /// Called on slow paths with no lock held. Above the soft limit, shrinks caches and releases
  /// everything idle, once per some growth; above a shared one, also that of others.
  /// \cost  a load where there is no limit
  /// \param give_up  called first then: the engine's user releases what it can
  template <typename GiveUp>
  void keep_to_soft_limit(GiveUp give_up) noexcept {
    if (!limit_.has_soft_limit()) return;
    if (begin_relief()) {
      give_up();
      end_relief();
    }
    limit_.keep_to_shared_soft_limit([this] { return idle_hint(); });
  }

  /// Called on slow paths with no lock held. Where the heap has grown beyond its peak, as much idle
  /// memory goes back. Where it has grown by more while much of it lay free in spans, the objects
  /// in the calling thread's cache (`own`, nullptr if it has none) and in the transfer caches first
  /// go to their spans. Spans without a live object become pages again, and the heap grows into
  /// these instead of new ones.
  /// \cost  four loads, unless it has grown by kLookStep
  void follow_growth(ThreadCache* own) noexcept {
    if (is_look_due()) look_at_growth(own);
  }
  bool is_look_due() noexcept {
    return taken_bytes() >= next_look_.load(std::memory_order_relaxed);
  }

  /// Gives back up to so much idle memory in exchange for memory that the process took elsewhere.
  /// The heap may then grow by so much less before it gives back more.
  /// \returns  bytes
  std::size_t make_room_for_others(std::size_t bytes) noexcept;

  ThreadRegistry& registry() noexcept { return registry_; }
  constexpr Central& central() noexcept { return central_; }
  constexpr const PageMap& map() const noexcept { return map_; }
  Central& watched() noexcept { return watched_; }
  PageHeap& page_heap() noexcept { return page_heap_; }
  HugeHeap& huge() noexcept { return huge_; }
  SpanSource& spans() noexcept { return spans_; }
  SpanSource& watched_spans() noexcept { return watched_spans_; }
  /// Bytes that spans gave back to the kernel: holes, and the rest of spans destroyed with holes.
  std::size_t decommitted_in_spans() const noexcept {
    return spans_.decommitted_bytes() + watched_spans_.decommitted_bytes();
  }
  constexpr MemoryLimit& limit() noexcept { return limit_; }
  constexpr MetadataArena& metadata() noexcept { return metadata_; }

  /// Drops every block and empties every thread cache; small and large memory stays, idle.
  /// \threads  no other thread uses the engine at the same time
  void forget_all() noexcept;
  /// Gives everything back, including caches and bookkeeping: the end of an engine that shares its
  /// page map.
  /// \threads  no other thread uses the engine at the same time, or ever again
  /// \cost     a system call for each region, huge block and chunk of bookkeeping
  void discard() noexcept;

  void check_invariants() noexcept;

  /// Bytes that the layers hold, added up layer by layer.
  /// \threads  no other thread uses the engine at the same time
  /// \cost     a lock, and a few loads for each shard of pages
  std::size_t count_held() noexcept;

  void hold_locks_for_fork() noexcept;
  /// In the child of a fork, where no lock is held any more: its only thread has the cache `own`,
  /// or none.
  void keep_only(ThreadCache* own) noexcept;

 private:
  // Chosen: idle memory adds a small part to a growing heap, at some system calls per 128 page
  // faults or more.
  static constexpr std::size_t kLookStep = std::size_t{512} << 10;
  static constexpr std::size_t kLookGrowth = 32;  // of the heap, as a share of it
  // Chosen: a heap that has grown by more steps since the last look had no bound to keep.
  static constexpr std::size_t kBoundSteps = 4;
  // Chosen: where huge blocks get at most this part of the growth, kept mappings are not in use.
  static constexpr std::size_t kGivenPart = 2;
  // Derived: up to this size a look is due after kLookStep.
  static constexpr std::size_t kSmallHeap = kLookStep * kLookGrowth;
  // Chosen: some hundred objects move per 512 page faults or more.
  static constexpr std::size_t kGatherStep = kRegionBytes;
  static constexpr std::size_t kGatherGrowth = 8;  // of the heap, as a share of it
  // Chosen: with a smaller share free in spans, the gain does not show.
  static constexpr std::size_t kGatherShare = 8;

  static constexpr unsigned pages_for(std::size_t bytes) noexcept {
    return static_cast<unsigned>((bytes - 1) / kPageBytes + 1);
  }
  static bool needs_all(const Span& pages, std::size_t bytes) noexcept {
    return (bytes - 1) >> kPageShift == pages.page_count - 1u;
  }
  bool may_stay_on(Span& pages, std::size_t bytes) noexcept;
  [[noreturn]] void die_of_no_object(const void* p, const char* action) const noexcept;
  std::size_t idle_outside_spans() const noexcept {
    return page_heap_.idle_pages() * kPageBytes + huge_.kept_bytes() + registry_.parked_bytes();
  }
  /// What is held, plus the holes.
  std::size_t taken_bytes() noexcept { return limit().held_bytes() + spans_.hole_bytes(); }
  Span* allocate_pages(unsigned page_count, unsigned alignment_pages, PagePlace& place) noexcept;
  Span* allocate_more_pages(unsigned page_count, unsigned alignment_pages,
                            PagePlace& place) noexcept;
  bool place_heap(const Options& options, std::uint64_t seed, std::size_t address_space) noexcept;
  void give_back_untouched(Span& span) noexcept;
  bool owns_region_of(const void* p) const noexcept {
    const Region* const region = map_.region_of(p);
    return region != nullptr && page_heap_.owns(*region);
  }
  [[noreturn]] void die_of_huge(const char* action, const void* p) noexcept;
  bool begin_relief() noexcept;
  void end_relief() noexcept;
  bool drop_untouched() noexcept;
  void look_at_growth(ThreadCache* own) noexcept;
  void forget_peak() noexcept;
  bool keeps_its_bound(std::size_t taken) noexcept;

  os::PageSource& pages_;
  PageMap& map_;
  const bool shares_map_;
  const bool lies_in_own_pages_;  // of the program; bookkeeping never does
  MemoryLimit limit_;
  MetadataArena metadata_;
  PageHeap page_heap_;
  SpanSource spans_;
  HugeHeap huge_;
  Central central_;
  SpanSource watched_spans_;
  Central watched_;
  ThreadRegistry registry_;
  // The largest class served from spans. relaxed, both: written before there are objects.
  std::atomic<unsigned> most_class_{SizeClassMap::kCount - 1};
  std::atomic<bool> has_all_addresses_{false};
  // True while a thread is between begin_relief() and end_relief(); the others go on. relaxed: it
  // only decides whose turn it is; locks order everything else.
  std::atomic<bool> is_relieving_{false};
  // When has_idle() last found nothing. relaxed: a hint.
  std::atomic<std::uint64_t> vain_look_ns_{0};
  // How often has_idle() dropped hardly touched blocks. relaxed: a bound.
  std::atomic<std::uint32_t> drops_{0};
  // taken_bytes() after the last look at growth, when the next look is due, and when objects are
  // gathered. relaxed: two threads may look at once, or one forgets a peak or makes room for others
  // meanwhile. Then one of the two looks has no effect.
  std::atomic<std::size_t> seen_taken_{0};
  std::atomic<std::size_t> seen_given_{0};  // of huge blocks, likewise
  std::atomic<std::size_t> next_look_{2 * kGatherStep};
  std::atomic<std::size_t> next_gathering_{2 * kGatherStep};
};

}  // namespace strata
