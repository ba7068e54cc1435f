#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock_visitor.h"
#include "base/shared_address_table.h"
#include "malloc/detour.h"
#include "malloc/engine.h"
#include "profile/sampling.h"
#include "profile/site_table.h"

namespace strata {

/// The heap profile: a watcher of one choice per so many bytes, which notes the stack of every
/// allocation it is handed.
///
/// A sampled object of a size class is a watched one, whose record names the site and the bytes
/// asked for; a larger block is in a table by address. Sums are kept per site, so that writing a
/// profile looks at no object. What was sampled stays known when the profile stops.
///
/// No lock of ours is held during unwinding, which may wait for the dynamic loader's lock, whose
/// holder may be in malloc.
/// \threads  Any number at once.
class Profiler final : public Watcher {
 public:
  constexpr Profiler(Engine& engine, Detour& detour) noexcept
      : engine_(engine),
        detour_(detour),
        sampling_(0),
        sites_(engine.metadata()),
        live_(engine.metadata(), LockRank::kWatcher) {}

  /// Begins to sample, or goes on at another rate: a profile holds what was sampled at one rate.
  /// May call dlopen, so never from inside the dynamic loader.
  /// \param rate  mean bytes between samples; 1 takes everything. Out of range: false
  bool start(std::size_t rate, std::uint64_t seed) noexcept;
  void stop() noexcept;
  bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }

  /// Writes what was sampled at the latest rate to a file, which is replaced when all is written.
  /// \param path  %p stands for the number of the process
  /// \returns     False after one sentence on standard error that says why.
  bool write(const char* path) noexcept;
  /// Writes what is live of it to standard error.
  void report_live() noexcept;

  std::int64_t draw_interval() noexcept override;
  Engine::Block allocate(const Allocation& allocation) noexcept override;
  void adopt(void* p, std::size_t bytes) noexcept override;
  void forget(void* p) noexcept override;
  void for_each_lock(LockVisitor visit) noexcept;

  SiteTable& sites() noexcept { return sites_; }
  void check_invariants() noexcept;

 private:
  /// What is known of a sampled block that is in no size class and has no record.
  struct LargeBlock {
    std::size_t bytes;
    std::uint32_t site;
  };

  std::uint32_t site_of_caller() noexcept;

  Engine& engine_;
  Detour& detour_;
  Sampling sampling_;
  SiteTable sites_;
  SharedAddressTable<LargeBlock> live_;
  // relaxed, all three: samples taken while they change are those of either rate.
  std::atomic<std::size_t> rate_{1};
  std::atomic<std::uint64_t> started_ns_{0};
  std::atomic<bool> is_on_{false};
};

}  // namespace strata
