#pragma once

#include <string>

#include "contenders/bitmap_pool_memory.h"
#include "contenders/block_allocator_memory.h"
#include "contenders/boost_memory.h"
#include "contenders/coalescing_heap_memory.h"
#include "contenders/malloc_memory.h"
#include "contenders/needs.h"
#include "contenders/object_pool_memory.h"
#include "contenders/page_arena_memory.h"
#include "contenders/pmr_memory.h"
#include "contenders/size_class_memory.h"
#include "contenders/thread_heaps_memory.h"
#include "harness/batches.h"
#include "harness/cell.h"
#include "harness/scenario.h"

/// \file  The contenders inside the measured process. To add one, write a header beside this file
/// and add its name to one of the two lists.

namespace strata::cell {

template <typename... Memories>
struct MemoryList {};

/// Blocks of one size.
using BlockMemories = MemoryList<BitmapPoolMemory, BlockAllocatorMemory, ObjectPoolMemory,
                                 PageArenaMemory, BoostPoolMemory, BoostLockfreeMemory>;
/// Any size.
using HeapMemories =
    MemoryList<SizeClassMemory, CoalescingHeapMemory, ThreadHeapsMemory<false>,
               ThreadHeapsMemory<true>, PmrMemory<std::pmr::unsynchronized_pool_resource>,
               PmrMemory<std::pmr::synchronized_pool_resource>>;

namespace detail {

template <typename Memory, typename Load>
bool run_if_named(const std::string& name, const Needs& needs, Load& load) {
  if (name != Memory::kName) return false;
  if (const char* const why = Memory::why_unfit(needs)) report_unfit(why);
  Memory memory(needs);
  load(memory);
  return true;
}

template <typename Load, typename... Memories>
bool run_one_of(MemoryList<Memories...>, const std::string& name, const Needs& needs, Load& load) {
  return (run_if_named<Memories>(name, needs, load) || ...);
}

}  // namespace detail

/// Calls load(memory) with the contender of this cell. The load is compiled for each contender that
/// fits, so that each is called as its users call it: inlined if it is a header, through the PLT if
/// it is a library.
template <Fits kFits, typename Load>
void with_contender(const Cell& cell, const Needs& needs, Load load) {
  if (cell.contender().empty()) {
    MallocMemory memory;
    return load(memory);
  }
  if constexpr (kFits == Fits::kBlocks || kFits == Fits::kAll) {
    if (detail::run_one_of(BlockMemories(), cell.contender(), needs, load)) return;
  }
  if constexpr (kFits == Fits::kHeaps || kFits == Fits::kAll) {
    if (detail::run_one_of(HeapMemories(), cell.contender(), needs, load)) return;
  }
  report_unfit("does not take part in this scenario");
}

/// Runs a load that repeats itself under the contender of this cell. make_lane(memory, worker) is
/// compiled for each contender that fits; tell_more() is as for run_batches().
template <Fits kFits, typename MakeLane, typename TellMore = void (*)()>
void run_lanes(
    Cell& cell, const Needs& needs, MakeLane make_lane, TellMore tell_more = [] {}) {
  with_contender<kFits>(cell, needs, [&](auto& memory) {
    run_batches(
        cell, [&](Worker& worker) { return make_lane(memory, worker); }, tell_more);
  });
}

}  // namespace strata::cell
