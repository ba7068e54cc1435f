#pragma once

#include <cstddef>

#include "malloc/engine.h"

namespace strata {

/// Where the memory is, in bytes, read layer by layer: exact while the process rests, late by what
/// other threads do meanwhile otherwise.
/// Always, at rest: mapped == live + cached + in_spans + tails + idle + clean.
struct Statistics {
  std::size_t
      mapped;        ///< regions handed out by the page heap, and huge mappings, kept ones included
  std::size_t live;  ///< owned by the program, rounded up to size classes, pages or OS pages
  std::size_t cached;    ///< free, in thread caches and ready batches
  std::size_t in_spans;  ///< free objects of spans that are in use
  std::size_t tails;     ///< ends of spans too short for an object
  std::size_t idle;      ///< free pages and kept mappings that hold memory
  std::size_t clean;     ///< free pages that hold none
  std::size_t metadata;  ///< our bookkeeping, not counted in mapped
  std::size_t returned;  ///< given back to the kernel since the start, by the page heap
  std::size_t threads;
  std::size_t regions;
  std::size_t huge_regions;
  std::size_t huge_blocks;

  struct Class {
    std::size_t spans;
    std::size_t live_objects;
    std::size_t cached_objects;
    std::size_t free_objects;
  } classes[SizeClassMap::kCount];
};

/// \threads any. \cost a visit to every class and every thread's cache
void collect_statistics(Engine& engine, Statistics& out) noexcept;

/// Writes the process's statistics to standard error, without allocating.
void print_statistics() noexcept;

}  // namespace strata
