#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "profile/sampling.h"
#include "profile/site_table.h"

namespace strata {

/// A heap profile: the samples of one malloc and of the user's heaps, by place and heap. Profilers
/// add to it. Sums are kept per site, so writing a profile visits no object. Samples stay known
/// when the profile stops.
/// \threads  Any number at once, but start() and stop() one at a time.
class HeapProfile {
 public:
  /// The user's heaps, whose profilers watch while the profile is on. Functions have bodies instead
  /// of = 0, which would need the C++ runtime.
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

  /// Starts to sample, or goes on at another rate: a profile holds what was sampled at the latest
  /// rate, whenever that was. Accepted: it does not start anew at a rate used before, which would
  /// take new sites each time, as objects of the old ones live on. May call dlopen, so never call
  /// it from inside the dynamic loader.
  /// \param rate  mean bytes between samples; 1 takes everything; out of range: returns false
  bool start(std::size_t rate, std::uint64_t seed) noexcept;
  void stop() noexcept;
  bool is_on() const noexcept { return is_on_.load(std::memory_order_relaxed); }
  std::size_t rate() const noexcept { return rate_.load(std::memory_order_relaxed); }
  std::int64_t draw_interval() noexcept { return sampling_.draw_interval(rate()); }

  /// From now on tells these heaps.
  void set_heaps(Heaps& heaps) noexcept { heaps_.store(&heaps, std::memory_order_release); }

  /// Writes what was sampled at the latest rate to a file, which is replaced once all is written.
  /// \param path  %p stands for the process ID
  /// \returns     False after one sentence on standard error that says why.
  bool write(const char* path) noexcept;
  /// For a malloc that the program does not use: writes one sentence to standard error, unless the
  /// malloc in use has written the file.
  void explain_absence(const char* path) noexcept;
  /// Writes the live samples to standard error.
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
