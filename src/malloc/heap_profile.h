#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "profile/sampling.h"
#include "profile/site_table.h"

namespace strata {

/// A heap profile: what was sampled, by place and heap, of one malloc and of the user's heaps. Sums
/// are kept per site, so that writing a profile looks at no object. What was sampled stays known
/// when the profile stops.
/// \threads  Any number at once, but start() and stop() one at a time.
class HeapProfile {
 public:
  /// The heaps of the user's, whose profilers watch while the profile is on. Functions have bodies
  /// instead of = 0, which would need the C++ runtime.
  class Heaps {
   public:
    virtual void begin_watches() noexcept {}
    virtual void end_watches() noexcept {}

   protected:
    ~Heaps() = default;
  };

  explicit constexpr HeapProfile(MetadataArena& metadata) noexcept : sites_(metadata) {}
  HeapProfile(const HeapProfile&) = delete;
  HeapProfile& operator=(const HeapProfile&) = delete;

  /// Begins to sample, or goes on at another rate: a profile holds what was sampled at the latest
  /// one, whenever that was. Accepted: it does not begin anew at a rate that was used before. That
  /// would take new sites each time, as objects of the old ones live on. May call dlopen, so never
  /// from inside the dynamic loader.
  /// \param rate  mean bytes between samples; 1 takes everything. Out of range: false
  bool start(std::size_t rate, std::uint64_t seed) noexcept;
  void stop() noexcept;
  bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }
  std::size_t rate() const noexcept { return rate_.load(std::memory_order_relaxed); }
  /// Bytes from here to the next sample.
  std::int64_t draw_interval() noexcept { return sampling_.draw_interval(rate()); }

  /// They are told from now on.
  void set_heaps(Heaps& heaps) noexcept { heaps_.store(&heaps, std::memory_order_release); }

  /// Writes what was sampled at the latest rate to a file, which is replaced when all is written.
  /// \param path  %p stands for the number of the process
  /// \returns     False after one sentence on standard error that says why.
  bool write(const char* path) noexcept;
  /// Of a malloc that the program does not use: one sentence on standard error, unless the file is
  /// there, from the one that it uses.
  void explain_absence(const char* path) noexcept;
  /// Writes what is live of it to standard error.
  void report_live() noexcept;

  SiteTable& sites() noexcept { return sites_; }

 private:
  Sampling sampling_{0};
  SiteTable sites_;
  std::atomic<Heaps*> heaps_{nullptr};  // release when they are set, acquire before they are called
  // relaxed, all three: samples taken while they change are those of either rate.
  std::atomic<std::size_t> rate_{1};
  std::atomic<std::uint64_t> started_ns_{0};
  std::atomic<bool> is_on_{false};
};

}  // namespace strata
