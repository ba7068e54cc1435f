#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "explain/places.h"
#include "history/growth.h"
#include "history/history.h"

namespace strata::cli {

/// Buckets for times to live, in half decades: below a microsecond, up to 3.2 µs, up to 10 µs, …
/// above 1000 s; the last bucket is "never ended".
struct LifeScale {
  static constexpr std::size_t kBuckets = 20;
  static constexpr std::size_t kNever = kBuckets;
  static std::size_t bucket_of(std::uint64_t ns) noexcept;
  /// The bucket's upper bound in seconds.
  static double upper_s(std::size_t bucket) noexcept;
};

/// Buckets for sizes, in powers of two: 0, 1, 2, 4, …
struct SizeScale {
  static constexpr std::size_t kBuckets = 49;
  static std::size_t bucket_of(std::uint64_t bytes) noexcept;
  static std::uint64_t lower(std::size_t bucket) noexcept;
};

using LifeCounts = std::array<std::uint64_t, LifeScale::kBuckets + 1>;

/// Sums over the objects of one place.
struct PlaceSums {
  std::uint64_t births = 0;
  std::uint64_t bytes = 0;  ///< of all objects
  std::uint64_t deaths = 0;
  std::uint64_t live = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_live = 0;  ///< at the place's own peak
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t at_peak = 0;  ///< at the program's peak
  std::uint64_t at_peak_bytes = 0;
  std::uint64_t smallest = ~std::uint64_t{0};
  std::uint64_t largest = 0;
  std::uint64_t temporaries = 0;
  /// reallocs that made an object of this place, from one of any place
  std::uint64_t reallocs = 0;
  std::uint64_t resized = 0;  ///< objects of this place that a realloc ended
  std::uint64_t grown = 0;    ///< objects that replaced a smaller one, step by step
  std::uint64_t foreign_deaths = 0;
  std::uint64_t aligned = 0;
  std::uint64_t zeroed = 0;  ///< from calloc
  /// largest sum of bytes allocated while any of its objects lived
  std::uint64_t largest_run_bytes = 0;
  bool is_one_at_a_time = true;  ///< within each thread
  std::uint32_t first_thread = 0;
  bool has_many_threads = false;
  LifeCounts lives{};

  double mean_bytes() const noexcept {
    return births == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(births);
  }

 private:
  friend class Explanation;
  std::uint64_t peak_event_ = 0;  ///< the event of the peak that at_peak refers to
  std::uint64_t run_bytes_ = 0;
  std::vector<bool> is_live_in_;  ///< by thread, as long as is_one_at_a_time
};

/// Called repeatedly with the number of events read so far.
using OnEvents = std::function<void(std::uint64_t events)>;

/// The statistics of a trace, computed in one pass.
/// \cost  Some 100 ns per event. Memory as for History, plus some 300 bytes per place and 32 per
///        stack.
class Explanation {
 public:
  struct Passing {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };

  Explanation(History& history, std::vector<std::string> skipped, const OnEvents& on_events);

  std::uint64_t events() const noexcept { return events_; }
  std::uint64_t births() const noexcept { return births_; }
  std::uint64_t failures() const noexcept { return failures_; }
  std::uint64_t allocated_bytes() const noexcept { return allocated_bytes_; }
  std::uint64_t duration_ns() const noexcept { return history_.event().time_ns; }
  const Moment& peak() const noexcept { return history_.peak(); }
  const History& history() const noexcept { return history_; }
  const Places& places() const noexcept { return places_; }
  /// By place.
  const std::vector<PlaceSums>& sums() const noexcept { return sums_; }
  /// Live memory over time: for each stretch what was live before it, its maximum, and what was
  /// live after it. The line through these points is level between stretches.
  std::vector<Moment> course() const;
  /// Objects by the threads that allocated and ended them.
  const std::map<std::pair<std::uint32_t, std::uint32_t>, Passing>& passing() const noexcept {
    return passing_;
  }
  std::uint64_t sizes(std::size_t bucket) const noexcept { return sizes_[bucket]; }
  /// Objects by size and time to live.
  std::uint64_t heat(std::size_t size, std::size_t life) const noexcept {
    return heat_[size][life];
  }
  /// Objects by their number of reallocs, freed or not; the last entry stands for more.
  const std::vector<std::uint64_t>& chains() const noexcept { return chains_; }
  std::string thread_name(std::uint32_t thread) const;

 private:
  static constexpr std::size_t kMostStretches = 512;
  /// A short interval with calls.
  struct Stretch {
    Moment before;  ///< the time of its first call, and what was live before
    Moment highest;
    Moment after;
  };
  /// Sums over the objects of one stack.
  struct StackSums {
    std::uint64_t bytes = 0;
    std::uint64_t live_bytes = 0;
    std::uint64_t at_peak_bytes = 0;
    std::uint64_t peak_event = 0;
  };

  PlaceSums& place_of(std::uint32_t stack);
  StackSums& stack_of(std::uint32_t stack);
  void keep_peak(PlaceSums& place);
  void keep_peak(StackSums& stack);
  void end_object();
  void begin_object();
  static void begin_alone(PlaceSums& place, std::uint32_t thread);
  void note_growth();
  void note_moment();
  static void join(Stretch& stretch, const Stretch& next);
  void name_callers();
  void finish();

  History& history_;
  Places places_;
  std::uint64_t events_ = 0;
  std::uint64_t births_ = 0;
  std::uint64_t failures_ = 0;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t peak_event_ = 0;  ///< in the part read so far
  std::vector<PlaceSums> sums_;
  std::vector<StackSums> stacks_;
  std::vector<Stretch> stretches_;
  std::uint64_t stretch_ns_ = 1000;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Passing> passing_;
  std::pair<std::uint32_t, std::uint32_t> last_passing_{~0u, ~0u};
  Passing* last_passing_sums_ = nullptr;
  std::array<std::uint64_t, SizeScale::kBuckets> sizes_{};
  std::array<std::array<std::uint64_t, LifeScale::kBuckets + 1>, SizeScale::kBuckets> heat_{};
  std::vector<std::uint64_t> chains_;
  GrowthFinder growth_;
};

}  // namespace strata::cli
