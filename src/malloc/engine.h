#pragma once

#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "central/central.h"
#include "malloc/options.h"
#include "os/page_source.h"
#include "span/huge_heap.h"
#include "span/page_heap.h"
#include "span/page_map.h"
#include "span/span_source.h"
#include "thread_cache/thread_registry.h"

namespace strata {

/// The layers of one malloc, put together, and what they do for any size:
///
///   small   up to 128 KiB  objects of a size class, through a thread cache
///   large   up to 1 MiB    a run of pages of the page heap
///   huge    beyond         a mapping of its own
///
/// Nothing here is global: a test makes as many engines as it likes over page sources of its own.
/// The process has one (process.h), and the thread's bins are passed in by whoever knows them.
/// \threads  Any number at once.
class Engine {
 public:
  explicit constexpr Engine(os::PageSource& pages) noexcept
      : pages_(pages),
        metadata_(pages),
        page_heap_(map_, metadata_, pages),
        spans_(map_, page_heap_, metadata_, pages),
        huge_(page_heap_, metadata_, pages),
        central_(spans_, metadata_),
        registry_(central_, page_heap_, metadata_, Options{}.cache_bytes) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  static constexpr std::size_t kMaxLargeBytes = kRegionBytes / 2;
  /// No object is larger: differences of pointers into it fit ptrdiff_t.
  static constexpr std::size_t kMaxBytes = PTRDIFF_MAX;

  struct Block {
    void* address;  ///< nullptr: out of memory
    bool is_zero;   ///< fresh from the kernel
  };

  /// Reserves the page map and decides where the heap lives. Once, before anything else.
  /// \returns  False when out of memory; the next call tries again.
  bool start(const Options& options, std::uint64_t seed) noexcept;
  bool is_started() const noexcept { return map_.limit() != 0; }

  /// The hot lookup of free. 0 for everything that is no small object.
  std::size_t class_of(const void* p) const noexcept { return map_.class_of(p); }

  /// An object that does not pass a thread cache. \returns nullptr when out of memory
  void* allocate_object(unsigned size_class) noexcept;
  /// Says that an object of a class that tracks it is handed out. \returns true if it reads as zero
  bool take_fresh(const void* p) noexcept;
  /// Takes an object back into its span, verified at once.
  void deallocate_object(unsigned size_class, void* p) noexcept {
    central_.release_to_spans(size_class, &p, 1);
  }

  /// A block beyond the size classes: larger, or aligned to more than they can be.
  /// \param alignment  a power of two
  Block allocate_large(std::size_t bytes, std::size_t alignment) noexcept;
  /// Takes back a block that is in no size class.
  /// \errors  A pointer that is no live block is fatal, with its sentence.
  void deallocate_large(void* p) noexcept;

  /// Bytes usable at `p`, a live object or block of any size.
  /// \errors  A pointer that is neither is fatal, with its sentence; `action` is its first word.
  std::size_t usable_bytes(const void* p, const char* action) noexcept;

  /// Resizes a block where it stands or, if it is huge, by remapping it.
  /// \returns  The block, moved or not; nullptr if the caller has to allocate, copy and free.
  void* resize_large(void* p, std::size_t bytes) noexcept;

  /// Gives everything idle back to the kernel, now. \returns true if anything was
  bool release_all() noexcept;
  /// Gives back what was not needed since the last call, by the layers' own counts. \returns bytes
  std::size_t release_unneeded() noexcept;
  /// Free bytes that hold memory: a hint, without a lock.
  std::size_t idle_bytes() const noexcept {
    return page_heap_.idle_pages() * kPageBytes + huge_.kept_bytes();
  }

  ThreadRegistry& registry() noexcept { return registry_; }
  Central& central() noexcept { return central_; }
  PageHeap& page_heap() noexcept { return page_heap_; }
  HugeHeap& huge() noexcept { return huge_; }
  MetadataArena& metadata() noexcept { return metadata_; }

  void check_invariants() noexcept;

  void lock_all() noexcept;  ///< for fork, by rank
  void unlock_all() noexcept;
  /// In the child, whose only thread has `own` or no cache.
  void reset_after_fork(ThreadCache* own) noexcept;

 private:
  os::PageSource& pages_;
  PageMap map_;
  MetadataArena metadata_;
  PageHeap page_heap_;
  SpanSource spans_;
  HugeHeap huge_;
  Central central_;
  ThreadRegistry registry_;
};

}  // namespace strata
