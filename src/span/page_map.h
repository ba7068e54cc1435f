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

/// Tells for any address, without a lock, the size class of its page and its region. "Not mine" is
/// an answer for every address there is, aligned or not, mapped or not. The malloc has one; all
/// user heaps share another.
///
/// The tables are flat, from address 0 to a limit: one byte per page and one pointer per region.
/// They stay small because the heap keeps to low addresses (PageHeap places its regions): 80 MiB of
/// address space for 4 TiB of heap, of which a program touches one or two OS pages. Where the
/// kernel gives no low addresses (a sanitizer's shadow is there) the tables cover everything.
///
/// The tables are readable everywhere, but writable only where open() was called: a kernel that
/// counts writable memory counts little, and never backs them with huge pages. They lie one after
/// the other, between two pages that nobody can write.
///
/// \threads  Lookups at any time. The owner of the pages calls set_…() under its lock. Another
///           thread gets an address only through the program's own synchronization, which orders
///           the entry before the lookup: relaxed accesses suffice.
class PageMap {
 public:
  constexpr PageMap() noexcept = default;
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  /// Reserves tables for the addresses below `limit`, a multiple of kRegionBytes, from a source
  /// that outlives the map.
  /// \pre      no address is ours, and no entry of a page was ever set
  /// \returns  False when out of memory.
  bool cover(std::uintptr_t limit, os::PageSource& pages) noexcept;

  /// From now on no address is ours. The tables stay for the next cover(): another thread may be
  /// reading them.
  void uncover() noexcept;
  /// Does so, and unmaps the tables.
  void discard(os::PageSource& pages) noexcept;

  /// Commits the entries of these addresses, for set_region() and set_class().
  /// \returns  False when out of memory, or beyond the limit.
  /// \threads  any: several heaps may share the map
  /// \cost     Two system calls; none if the addresses opened last include these.
  bool open(const void* start, std::size_t bytes) noexcept;

  Lock& lock() noexcept { return opening_; }  ///< for fork

  /// Names the heaps that share the map, or exist beside it; nullptr if there is none.
  HeapNames* names() const noexcept { return names_.load(std::memory_order_acquire); }
  void set_names(HeapNames* names) noexcept { names_.store(names, std::memory_order_release); }

  std::uintptr_t limit() const noexcept {
    return static_cast<std::uintptr_t>(page_limit_) << kPageShift;
  }

  /// Address space of the tables; only used parts hold memory.
  std::size_t reserved_bytes() const noexcept { return reserved_bytes_; }

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
    return region_at(address >> kRegionShift);
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
  /// \pre  p is in a region of ours
  ObjectStates::Place states_of(const void* p) const noexcept {
    return states_at(reinterpret_cast<std::uintptr_t>(p) >> kPageShift);
  }
  /// The same for a page's number.
  /// \cost  6 instructions, two of them loads
  ObjectStates::Place states_at(std::uintptr_t index) const noexcept {
    const auto* const states = region_at(index / kPagesPerRegion)->states_of_page;
    return (states + index % kPagesPerRegion)->load(std::memory_order_relaxed);
  }

  /// Whether an object of the class starts at `p`.
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

  /// Clears the region's entries: its addresses belong to no heap from now on.
  void forget_region(const void* start) noexcept {
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(start) >> kPageShift;
    for (unsigned i = 0; i < kPagesPerRegion; ++i)
      std::atomic_ref<std::uint8_t>(classes_[first + i]).store(0, std::memory_order_relaxed);
    set_region(start, nullptr);
  }

  void set_class(const Span& span, unsigned size_class) noexcept {
    const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(span.start) >> kPageShift;
    for (unsigned i = 0; i < span.page_count; ++i) {
      std::atomic_ref<std::uint8_t>(classes_[first + i])
          .store(static_cast<std::uint8_t>(size_class), std::memory_order_relaxed);
    }
  }

 private:
  /// The addresses opened last, merged with earlier ones that they touch.
  struct Opened {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };
  Region* region_at(std::uintptr_t index) const noexcept {
    return std::atomic_ref<Region*>(regions_[index]).load(std::memory_order_relaxed);
  }

  // Threads look up addresses while a heap begins, which may cover other addresses in its second
  // try. The limit is stored last, and a thread that has seen an earlier one reads zeros in either
  // table. Accepted: plain reads, since atomic loads take an instruction more in each free; a
  // processor that reorders loads could then read far into smaller tables or, where a first heap
  // begins beside other threads, through null pointers.
  std::uintptr_t page_limit_ = 0;
  std::uint8_t* classes_ = nullptr;         // [page_limit_]
  Region** regions_ = nullptr;              // [page_limit_ / kPagesPerRegion]
  std::size_t reserved_bytes_ = 0;          // from classes_ on
  os::PageSource* pages_ = nullptr;         // of the tables
  std::atomic<HeapNames*> names_{nullptr};  // release after it is ready, acquire before its use
  Lock opening_{LockRank::kPageMap};
  Opened opened_ STRATA_GUARDED_BY(opening_);
};

}  // namespace strata
