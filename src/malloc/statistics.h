#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_sink.h"
#include "guard/guard_pool.h"
#include "malloc/malloc_instance.h"

namespace strata {

/// Where the memory is, in bytes, read layer by layer: exact while the process rests, otherwise out
/// of date by what other threads do meanwhile.
///
/// Always: mapped == live + cached + free() + metadata + returned(). At rest, what is held (the
/// figure that limits count) is all of it but returned().
struct Statistics {
  std::string_view name;    ///< "malloc", or that of the user's heap
  std::size_t mapped;       ///< mapped from the kernel, without the page map's tables
  std::size_t live;         ///< owned by the program, rounded up to size classes, pages or OS pages
  std::size_t cached;       ///< free, in thread caches, transfer caches and the quarantine
  std::size_t in_spans;     ///< free objects of spans that are in use
  std::size_t tails;        ///< ends of spans too short for an object
  std::size_t holes;        ///< the part of in_spans and tails that holds no memory
  std::size_t idle;         ///< free pages and kept mappings that hold memory
  std::size_t clean;        ///< addresses that hold none: free pages, regions not yet begun, and
                            ///< what the kernel could not unmap
  std::size_t metadata;     ///< our bookkeeping
  std::size_t page_map;     ///< address space of the page map, not part of mapped
  std::size_t given_back;   ///< released to the kernel since the start, in all ways
  std::size_t in_threads;   ///< the part of cached that is in thread caches
  std::size_t quarantined;  ///< the part of cached in the quarantine of full checks
  std::size_t small_spans;  ///< bytes of pages that are cut into objects
  std::size_t
      kept_spans;  ///< the part of small_spans without an object in use, kept for their class
  std::size_t large_blocks;  ///< bytes of page runs that are one object
  std::size_t huge_live;
  std::size_t huge_kept;
  std::size_t threads;
  std::size_t regions;
  std::size_t huge_regions;
  std::size_t huge_blocks;
  std::size_t shards;            ///< of central
  bool verifies_frees;           ///< all of them, with thread caches: now
  std::size_t verified_frees;    ///< MallocInstance::verified_frees()
  std::size_t state_bytes;       ///< of objects, for that; part of metadata
  std::size_t empties;           ///< addresses of blocks of 0 bytes, in returned()
  GuardPool::Statistics guards;  ///< their pages are in live, free() and returned()
  MemoryLimit::Statistics limit;
  Scavenger::Statistics scavenger;

  /// How often threads waited for the locks of a layer, since the start.
  struct Waits {
    std::size_t thread_registry;
    std::size_t
        central;  ///< lists and transfer caches of all classes, those of watched objects too
    std::size_t huge_heap;
    std::size_t page_heap;
    std::size_t metadata;
    std::size_t total() const noexcept {
      return thread_registry + central + huge_heap + page_heap + metadata;
    }
  } waits;

  struct Class {
    std::size_t spans;
    std::size_t live_objects;
    std::size_t cached_objects;
    std::size_t free_objects;
    std::uint32_t kept_spans;      ///< of spans
    std::uint32_t waits;           ///< for its spans' locks, in all shards
    std::uint32_t transfer_waits;  ///< for its transfer caches' locks
  } classes[SizeClassMap::kCount];

  /// Free and holding memory, in no cache.
  std::size_t free() const noexcept {
    return in_spans + tails - holes + idle + guards.waiting_bytes;
  }
  /// Address space without memory: it went back to the kernel, or was never touched.
  std::size_t returned() const noexcept {
    return clean + holes + empties + guards.reserved_bytes - guards.live_bytes -
           guards.waiting_bytes;
  }
};

/// Starts the malloc with the next allocation if it has not started; what it served before is not
/// counted. All zero where it must not wait for a lock.
/// \threads  any
/// \cost     a visit to every class and every thread's cache, each under its lock; waits while
///           memory is being returned
Statistics collect_statistics(MallocInstance& malloc) noexcept;

/// Writes them as text, or as the JSON of docs/stats-schema.json. Allocates nothing.
void write_statistics(const Statistics& statistics, TextSink& sink) noexcept;
void write_statistics_json(const Statistics& statistics, TextSink& sink) noexcept;

/// Collects them and writes them where the options say: to standard error or a file.
void print_statistics(MallocInstance& malloc) noexcept;

}  // namespace strata
