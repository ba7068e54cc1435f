#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/shared_address_table.h"
#include "malloc/detour.h"
#include "malloc/engine.h"
#include "malloc/heap_profile.h"
#include "profile/site_table.h"

namespace strata {

/// Samples one malloc into a profile: a watcher by bytes that records the stack of every allocation
/// it is handed. The profile is the malloc's own, or shared with others. MallocInstance owns the
/// profiler.
///
/// A sampled object of a size class is a watched object, whose record names the site and the bytes
/// asked for; larger blocks are in a table by address.
///
/// No lock of ours is held during unwinding, which may wait for the dynamic loader's lock, whose
/// holder may be in malloc.
/// \threads  Any number at once.
class Profiler final : public Watcher {
 public:
  constexpr Profiler(Engine& engine, Detour& detour) noexcept
      : engine_(engine),
        detour_(detour),
        own_(engine.metadata()),
        live_(engine.metadata(), LockRank::kWatcher) {}

  /// Directs samples into another profile, under the name of a heap. Call before the first watch.
  /// \param heap_name  outlives this, unchanged
  void join(HeapProfile& profile, const char* heap_name) noexcept {
    profile_ = &profile;
    heap_name_ = heap_name;
  }

  /// Starts and stops the profile, with this watch and those of the joined heaps.
  bool start(std::size_t rate, std::uint64_t seed) noexcept;
  void stop() noexcept;
  /// Starts and stops this watch only.
  void watch() noexcept;
  void unwatch() noexcept { detour_.end(Detour::kByBytes); }

  std::int64_t draw_interval() noexcept override;
  Engine::Block allocate(const Allocation& allocation) noexcept override;
  void adopt(void* p, std::size_t bytes) noexcept override;

  // What happens to blocks in no size class of the page map, sampled or not:

  /// A block with a record was resized in place.
  void resize(void* p, std::size_t bytes) noexcept;
  /// A block is about to be freed.
  void forget(void* p) noexcept;

  /// A sampled block without a record.
  struct LargeBlock {
    std::size_t bytes;
    std::uint32_t site;  ///< 0: it is not sampled
  };
  /// A block without a record is about to be resized in place; one of the next two calls says what
  /// became of it. Meanwhile its address may be that of another block.
  LargeBlock set_aside(void* p) noexcept;
  /// The block could not be resized, and is unchanged.
  void put_back(void* p, const LargeBlock& block) noexcept;
  /// The block was resized: it counts as another one, and the old one is gone.
  void let_go(const LargeBlock& block) noexcept;

  /// Counts everything live as freed.
  /// \threads  no other thread uses the malloc at the same time
  void forget_all() noexcept;
  void hold_locks_for_fork() noexcept;

  HeapProfile& profile() noexcept { return *profile_; }
  SiteTable& sites() noexcept { return profile_->sites(); }
  void check_invariants() noexcept;

 private:
  std::uint32_t site_of_caller() noexcept;

  Engine& engine_;
  Detour& detour_;
  HeapProfile own_;
  HeapProfile* profile_ = &own_;
  const char* heap_name_ = nullptr;  // nullptr: the malloc
  // Its own. relaxed: written before the watch begins, which publishes it (Detour).
  std::atomic<const HeapLabel*> label_{nullptr};
  SharedAddressTable<LargeBlock> live_;
};

}  // namespace strata
