#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"
#include "span/object_states.h"
#include "span/page.h"

namespace strata {

class HeapNames;

/// Answers for any address, without a lock, what is there: the size class of its page, and its
/// region. "Not mine" is an answer for every address there is, aligned or not, mapped or not.
///
/// One byte per page and one pointer per region, flat over the addresses from 0 to a limit. The
/// heap keeps to low addresses (PageHeap places its regions), so that the tables stay small: 80 MiB
/// of address space for 4 TiB of heap, of which a program touches one OS page or two. Where the
/// kernel gives no low addresses (a sanitizer's shadow is there) the tables cover everything.
///
/// Where frees are verified, there is one word per page, too, for the addresses around the first
/// that has it; a heap that goes beyond gets a table for all.
///
/// The tables can be read all over and written only where open() was called: so a kernel that
/// counts what could be written counts little, and never backs them with huge pages. They lie one
/// after the other, between pages that nobody can write.
///
/// \threads  Lookups at any time. set_… are calls of the owner of the pages, under its lock;
///           another thread gets an address only through the program's own synchronization, which
///           orders the entry before the lookup: relaxed accesses suffice.
class PageMap {
 public:
  constexpr PageMap() noexcept = default;
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  /// A table of states is reserved with the others. Before them.
  void expect_states() noexcept { expects_states_ = true; }

  /// Reserves tables for the addresses below `limit`, a multiple of kRegionBytes, from a source
  /// that outlives this.
  /// \pre      none so far
  /// \returns  False when out of memory.
  bool cover(std::uintptr_t limit, os::PageSource& pages) noexcept;

  /// Unmaps the tables; no address is ours then.
  void discard(os::PageSource& pages) noexcept;

  /// Commits the entries of these addresses, for set_region() and set_class().
  /// \returns  False when out of memory, or beyond the limit.
  /// \threads  any: several heaps may share the map
  /// \cost     Two system calls, unless earlier calls opened them, too, and no other addresses.
  bool open(const void* start, std::size_t bytes) noexcept;

  /// The same for set_states(). The first call reserves a table for them, unless it was expected;
  /// one far away a larger one.
  /// \returns  False when out of memory.
  bool open_states(const void* start, std::size_t bytes) noexcept;

  Lock& lock() noexcept { return opening_; }  ///< for fork

  /// What names the heaps that share the map, or exist beside it; nullptr if nothing does.
  HeapNames* names() const noexcept { return names_.load(std::memory_order_acquire); }
  void set_names(HeapNames* names) noexcept { names_.store(names, std::memory_order_release); }

  std::uintptr_t limit() const noexcept {
    return static_cast<std::uintptr_t>(page_limit_) << kPageShift;
  }

  /// Address space of the tables, of which only what is used holds memory.
  std::size_t reserved_bytes() const noexcept;

  /// The size class of the span that `p` points into; 0 if p is not aligned to 16, not in a small
  /// span, or not ours.
  /// \cost  5 instructions and a load
  std::size_t class_of(const void* p) const noexcept { return class_at(index_of(p)); }

  /// The number of the page of `p`; beyond any limit if p is not aligned to 16: the rotation
  /// carries misalignment to the top, where one comparison refuses both.
  static std::uintptr_t index_of(const void* p) noexcept {
    return std::rotr(reinterpret_cast<std::uintptr_t>(p), 4) >> (kPageShift - 4);
  }
  std::size_t class_at(std::uintptr_t index) const noexcept {
    if (index >= page_limit_) [[unlikely]]
      return 0;
    return std::atomic_ref<std::uint8_t>(classes_[index]).load(std::memory_order_relaxed);
  }

  /// The region that `p` points into, nullptr if none of ours.
  Region* region_of(const void* p) const noexcept {
    const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(p);
    if (address >> kPageShift >= page_limit_) return nullptr;
    return std::atomic_ref<Region*>(regions_[address >> kRegionShift])
        .load(std::memory_order_relaxed);
  }

  /// The span that `p` points into, nullptr if none.
  /// \pre  no other thread frees that span meanwhile: true while p is a live object, and under the
  ///       lock of the layer that owns the span.
  Span* span_of(const void* p) const noexcept {
    Region* region = region_of(p);
    if (region == nullptr) return nullptr;
    const std::uint8_t head =
        region->head_of_page[(reinterpret_cast<std::uintptr_t>(p) >> kPageShift) % kPagesPerRegion];
    return head == Region::kNoSpan ? nullptr : &region->spans[head];
  }

  /// Where the states of the objects on the page of `p` are, kNoPlace if it has none.
  /// \pre  p is below the limit, and open_states() was called, for whichever addresses
  ObjectStates::Place states_of(const void* p) const noexcept {
    return states_at(reinterpret_cast<std::uintptr_t>(p) >> kPageShift);
  }
  /// The same for a page's number.
  ObjectStates::Place states_at(std::uintptr_t index) const noexcept {
    ObjectStates::Place* const states = states_.load(std::memory_order_acquire);
    return std::atomic_ref<ObjectStates::Place>(states[index]).load(std::memory_order_relaxed);
  }

  /// Whether an object starts at `p`, on a page of a class.
  /// \pre  as span_of()
  bool is_object(const void* p, std::size_t size_class) const noexcept {
    const Span* const span = span_of(p);
    return span != nullptr && span->size_class == size_class &&
           span->index_of(p) != span->object_count;
  }

  /// \pre  for this and the next, open() was called for the addresses
  void set_region(const void* start, Region* region) noexcept {
    std::atomic_ref<Region*>(regions_[reinterpret_cast<std::uintptr_t>(start) >> kRegionShift])
        .store(region, std::memory_order_relaxed);
  }

  /// The region's addresses belong to no heap from now on.
  void forget_region(const void* start) noexcept {
    set_region(start, nullptr);
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(start) >> kPageShift;
    for (unsigned i = 0; i < kPagesPerRegion; ++i)
      std::atomic_ref<std::uint8_t>(classes_[first + i]).store(0, std::memory_order_relaxed);
  }

  /// The states of the span's objects are there.
  /// \pre  open_states() was called for its addresses
  void set_states(const Span& span, ObjectStates::Place place) noexcept;

  void set_class(const Span& span, unsigned size_class) noexcept {
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(span.start) >> kPageShift;
    for (unsigned i = 0; i < span.page_count; ++i) {
      std::atomic_ref<std::uint8_t>(classes_[first + i])
          .store(static_cast<std::uint8_t>(size_class), std::memory_order_relaxed);
    }
  }

 private:
  /// The addresses opened last, with those opened before that they touch.
  struct Opened {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };
  /// Places of states for the pages from `begin` up to `end`.
  struct StateTable {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    ObjectStates::Place* places = nullptr;  // [end - begin]; nullptr: there is no table

    std::size_t bytes() const noexcept;
    bool reserve(std::uintptr_t first, std::uintptr_t last, os::PageSource& pages) noexcept;
    bool place(std::uintptr_t first, std::uintptr_t last, void* reserved) noexcept;
    bool open(std::uintptr_t first, std::uintptr_t last, os::PageSource& pages) const noexcept;
    void discard(os::PageSource& pages) noexcept;
  };
  bool reserve_near_states(std::uintptr_t page) noexcept STRATA_REQUIRES(opening_);
  bool reserve_all_states() noexcept STRATA_REQUIRES(opening_);
  void publish(const StateTable& table) noexcept;
  std::size_t bytes_at_once(std::uintptr_t page_limit) const noexcept;

  template <typename Tables>
  bool open_around(Opened& opened, std::uintptr_t address, std::size_t bytes,
                   std::uintptr_t at_once, Tables&& tables) noexcept;

  std::uintptr_t page_limit_ = 0;
  std::uint8_t* classes_ = nullptr;  // [page_limit_]
  Region** regions_ = nullptr;       // [page_limit_ / kPagesPerRegion]
  bool expects_states_ = false;      // behind these there is room for near_states_
  // Where the last table has page 0, or would have it. Written under opening_: release after the
  // table is filled, acquire by those who read it. They have an object of a span with states, so
  // they find its place in the table that was the last one when they got it, and in later ones.
  std::atomic<ObjectStates::Place*> states_{nullptr};
  os::PageSource* pages_ = nullptr;         // of the tables
  std::atomic<HeapNames*> names_{nullptr};  // release after it is ready, acquire before its use
  mutable Lock opening_{LockRank::kPageMap};
  Opened opened_ STRATA_GUARDED_BY(opening_);
  Opened opened_states_ STRATA_GUARDED_BY(opening_);
  // Of the first addresses, and of all. The first stays: a thread may be about to read it.
  StateTable near_states_ STRATA_GUARDED_BY(opening_);
  StateTable all_states_ STRATA_GUARDED_BY(opening_);
};

}  // namespace strata
