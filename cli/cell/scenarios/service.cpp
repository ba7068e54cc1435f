#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "contenders/in_process.h"
#include "harness/batches.h"
#include "harness/resident.h"
#include "scenarios/draw.h"

/// \file  The long life of a server. For each request a thread allocates temporaries, stores an
/// entry (a node and its value) in a full cache, which evicts its oldest entries, and frees the
/// temporaries. Some entries are used again and outlive their contemporaries. A day ends when its
/// requests have replaced --turnover of the cache. At night the oldest entries expire and no calls
/// are made; at dawn the memory is measured. The sizes of values drift from day to day, so what
/// yesterday freed is not what today needs. Each thread takes over its neighbour's cache, so it
/// frees what others allocated.
///
///   first_dawn_rss_per_live   the process's growth divided by live bytes, after the first night
///   dawn_rss_per_live         the same after the last; equal to it if a service can run for months
///   worst_dawn_rss_per_live   the maximum over all dawns
///
/// Latency of kind `request`: all requests, except those whose calls are timed individually.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::size_t kDrawn = std::size_t{1} << 14;
constexpr std::uint32_t kNodeBytes = 56;
/// Values are drawn from half to twice the day's middle, which drifts up from the lowest and back
/// down.
constexpr double kLowestMiddle = 192;
constexpr double kLowestMean = 207;  ///< log-uniform from half to twice kLowestMiddle
constexpr double kOctaves = 4;
constexpr std::size_t kMostTemporaries = 64;
constexpr std::uint32_t kLargestTemporary = 256 * 1024;
constexpr std::uint64_t kTellLiveEvery = 256;  // requests

/// The middle, in bytes, after drifting this many octaves.
double middle_after(double octaves) noexcept {
  const double turn = std::fmod(octaves, 2 * kOctaves);
  return kLowestMiddle * std::exp2(turn <= kOctaves ? turn : 2 * kOctaves - turn);
}

struct Plan {
  explicit Plan(const Cell& cell)
      : days(cell.count("days")),
        night_s(cell.real("night")),
        drift(cell.real("drift")),
        turnover(cell.real("turnover")),
        reuse(cell.real("reuse")),
        expire(cell.real("expire")),
        target_bytes((cell.count("live") << 20) / cell.lanes()) {}

  std::uint64_t days;
  double night_s;
  double drift;
  double turnover;
  double reuse;
  double expire;
  std::size_t target_bytes;  ///< for the entries of one thread
};

struct Request {
  std::uint32_t temporaries;
  std::uint32_t value_bytes;
  std::uint32_t chance;  ///< of any value
  bool uses_oldest;      ///< the oldest entry stays and another is evicted
};

/// Most are small, some are buffers, few are whole documents.
std::uint32_t draw_temporary(std::mt19937_64& random) {
  const std::uint64_t kind = random() % 256;
  if (kind == 0) return log_between(random, 32 * 1024, kLargestTemporary);
  return kind < 16 ? log_between(random, 1024, 16 * 1024) : log_between(random, 16, 512);
}

/// The entries that one thread serves for a day, oldest first.
class Cache {
 public:
  struct Entry {
    Block node;
    Block value;
    std::size_t bytes() const noexcept { return std::size_t{node.bytes} + value.bytes; }
  };

  explicit Cache(std::size_t target_bytes)
      : ring_(64 + static_cast<std::size_t>(static_cast<double>(target_bytes) /
                                            (kNodeBytes + kLowestMean))) {}

  std::size_t count() const noexcept { return count_; }
  std::size_t bytes() const noexcept { return bytes_; }

  template <typename Probe, typename Memory>
  void store(Probe& probe, Memory& memory, std::uint32_t value_bytes) {
    if (count_ == ring_.size()) evict(probe, memory, 0);
    const Entry entry{probe.allocate(memory, kNodeBytes), probe.allocate(memory, value_bytes)};
    bytes_ += entry.bytes();
    at(count_++) = entry;
  }
  /// Evicts an entry; `age` counts from the oldest. If another than the oldest goes, the oldest
  /// takes its place.
  template <typename Probe, typename Memory>
  void evict(Probe& probe, Memory& memory, std::size_t age) {
    Entry gone = std::exchange(at(age), at(0));
    oldest_ = (oldest_ + 1) % ring_.size();
    --count_;
    bytes_ -= gone.bytes();
    probe.deallocate(memory, gone.value);
    probe.deallocate(memory, gone.node);
  }

 private:
  Entry& at(std::size_t age) noexcept { return ring_[(oldest_ + age) % ring_.size()]; }

  OwnMemory<Entry> ring_;
  std::size_t oldest_ = 0;
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

/// A thread of the service.
template <typename Memory>
class Server {
 public:
  Server(const Plan& plan, Cell& cell, Memory& memory, Worker& worker, LatencyKind request_kind)
      : plan_(plan),
        cell_(cell),
        memory_(memory),
        worker_(worker),
        request_kind_(request_kind),
        temporaries_(worker.seed, draw_temporary) {
    wake_up(0);
  }

  /// Draws the requests of a day.
  void wake_up(std::uint64_t day) {
    const double middle = middle_after(static_cast<double>(day) * plan_.drift);
    requests_.emplace(worker_.seed + day, [&](std::mt19937_64& random) {
      return Request{log_between(random, 2, kMostTemporaries),
                     log_between(random, static_cast<std::uint64_t>(middle / 2),
                                 static_cast<std::uint64_t>(2 * middle)),
                     static_cast<std::uint32_t>(random() >> 33),
                     static_cast<double>(random() % 1'000'000) < plan_.reuse * 1e6};
    });
  }

  /// Serves a day. The first request writes and checks every byte of its blocks; --sample-rate of
  /// the others have their calls timed. `extra` is the share of the cache to store beyond the
  /// turnover.
  void serve_day(Cache& cache, double extra) {
    told_bytes_ = cache.bytes();  // already reported by the previous thread
    Probe<Depth::kPlain> plain(worker_);
    Probe<Depth::kTimed> timed(worker_);
    Probe<Depth::kVerified> verified(worker_);
    const double enough =
        stored_bytes_ + (plan_.turnover + extra) * static_cast<double>(plan_.target_bytes);
    const double began_s = now_s();
    const double cpu_began_s = thread_cpu_s();
    const std::uint64_t faults = detail::faults_of_thread();
    serve(verified, cache);
    double owed = cell_.sample_rate() > 0 ? 1 : 0;
    do {
      if (owed >= 1) {
        serve(timed, cache);
        owed -= 1;
      }
      const std::uint64_t from = Stopwatch::start();
      serve(plain, cache);
      worker_.latencies[request_kind_].record(Stopwatch::picoseconds(Stopwatch::stop() - from));
      owed += cell_.sample_rate();
    } while (stored_bytes_ < enough);
    times.counted_s += now_s() - began_s;
    times.counted_cpu_s += thread_cpu_s() - cpu_began_s;
    times.steady_faults += detail::faults_of_thread() - faults;
    times.steady_until_s = times.counted_s;  // the days back to back, without the nights
    tell_live(cache);
  }

  /// Evicts this share of the entries, oldest first.
  void expire(Cache& cache, double share) {
    Probe<Depth::kPlain> probe(worker_);
    const double count = static_cast<double>(cache.count());
    const auto left = static_cast<std::size_t>(std::lround(count * (1 - share)));
    while (cache.count() > left) cache.evict(probe, memory_, 0);
    tell_live(cache);
  }

  BatchTimes times;

 private:
  template <typename Probe>
  void serve(Probe& probe, Cache& cache) {
    const Request& request = requests_->next();
    Block blocks[kMostTemporaries];
    for (std::uint32_t i = 0; i < request.temporaries; ++i) {
      blocks[i] = probe.allocate(memory_, temporaries_.next());
    }
    while (cache.count() > 0 && is_full(cache, request)) {
      cache.evict(probe, memory_, request.uses_oldest ? request.chance % cache.count() : 0);
    }
    cache.store(probe, memory_, request.value_bytes);
    stored_bytes_ += request.value_bytes + kNodeBytes;
    // Frees in reverse order like destructors, or in order like a queue.
    const bool is_stack = request.chance % 2 == 0;
    for (std::uint32_t i = 0; i < request.temporaries; ++i) {
      probe.deallocate(memory_, blocks[is_stack ? request.temporaries - 1 - i : i]);
    }
    times.counted_ops += request.temporaries + 2;
    if (++served_ % kTellLiveEvery == 0) tell_live(cache);
  }

  bool is_full(const Cache& cache, const Request& request) const noexcept {
    return cache.bytes() + kNodeBytes + request.value_bytes > plan_.target_bytes;
  }

  /// Reports the live bytes as differences, since a cache changes its thread at night.
  void tell_live(const Cache& cache) noexcept {
    cell_.live_bytes().fetch_add(cache.bytes() - told_bytes_, std::memory_order_relaxed);
    told_bytes_ = cache.bytes();
  }

  const Plan& plan_;
  Cell& cell_;
  Memory& memory_;
  Worker& worker_;
  LatencyKind request_kind_;
  Drawn<std::uint32_t, kDrawn> temporaries_;
  std::optional<Drawn<Request, kDrawn>> requests_;
  double stored_bytes_ = 0;
  std::uint64_t served_ = 0;
  std::size_t told_bytes_ = 0;
};

/// The process's growth divided by the live bytes, at each dawn.
class Dawns {
 public:
  explicit Dawns(std::uint64_t rss_before) : rss_before_(static_cast<double>(rss_before)) {}

  void weigh(std::uint64_t live_bytes) {
    const double gained = static_cast<double>(resident_bytes()) - rss_before_;
    last_ = gained / static_cast<double>(std::max<std::uint64_t>(1, live_bytes));
    if (first_ < 0) first_ = last_;
    worst_ = std::max(worst_, last_);
  }
  void tell(Cell& cell) const {
    cell.metric("dawn_rss_per_live", last_);
    cell.metric("first_dawn_rss_per_live", first_);
    cell.metric("worst_dawn_rss_per_live", worst_);
  }

 private:
  double rss_before_;
  double first_ = -1;
  double worst_ = 0;
  double last_ = 0;
};

template <typename Memory>
void run_service(Cell& cell, const Plan& plan, Memory& memory, LatencyKind request_kind) {
  const std::size_t count = cell.lanes();
  std::vector<Cache> caches;
  for (std::size_t i = 0; i < count; ++i) caches.emplace_back(plan.target_bytes);
  std::vector<BatchTimes> times(count);
  std::barrier everyone(cell.threads());
  std::optional<Dawns> dawns;
  cell.run_threads(cell.threads(), [&](Worker& worker) {
    const std::size_t thread = worker.index();
    const bool is_first = worker.thread == 0;
    Server server(plan, cell, memory, worker, request_kind);
    everyone.arrive_and_wait();
    if (is_first) {
      dawns.emplace(resident_bytes());
      cell.begin_load();
    }
    for (std::uint64_t day = 0; day < plan.days; ++day) {
      Cache& cache = caches[(thread + day) % count];
      everyone.arrive_and_wait();
      server.serve_day(cache, day == 0 ? 1 : 0);
      server.expire(cache, plan.expire);
      server.wake_up(day + 1);
      everyone.arrive_and_wait();
      if (is_first) {
        std::this_thread::sleep_for(std::chrono::duration<double>(plan.night_s));
        dawns->weigh(cell.live_bytes().load(std::memory_order_relaxed));
      }
    }
    everyone.arrive_and_wait();
    if (is_first) cell.end_load();
    everyone.arrive_and_wait();
    server.expire(caches[thread], 1);
    times[thread] = server.times;
  });
  report_batches(cell, times);
  dawns->tell(cell);
  cell.finish();
}

void service(Cell& cell) {
  const Plan plan(cell);
  const LatencyKind request_kind = cell.add_latency("request");
  Needs needs;
  needs.smallest_bytes = 16;
  needs.largest_bytes = kLargestTemporary;
  needs.threads = cell.threads();
  const std::size_t temporary_bytes = 8 * kLargestTemporary;
  needs.live_bytes = (plan.target_bytes + temporary_bytes) * cell.lanes();
  needs.live_blocks = needs.live_bytes / kNodeBytes;  // an upper bound
  with_contender<kFits>(cell, needs,
                        [&](auto& memory) { run_service(cell, plan, memory, request_kind); });
}

const Registration<service> kService({
    .name = "service",
    .purpose = "the days and nights of a server whose sizes drift; try --threads 8 --live 2048",
    .fits = kFits,
    .options = {Option::count("live", 256, 1, 1 << 20, "MiB", "size of the caches of all threads"),
                Option::count("days", 6, 1, 100'000, "days", "how long the service lives"),
                Option::real("turnover", 1, 0.01, 1000, "share",
                             "share of the caches that a day replaces"),
                Option::real("reuse", 0.02, 0, 1, "share",
                             "share of the evictions that spare the oldest entry and take another"),
                Option::real("expire", 0.1, 0, 1, "share",
                             "share of the entries that expire at night"),
                Option::real("drift", 1, 0, 4, "octaves",
                             "how far the sizes of values move from a day to the next"),
                Option::real("night", 2, 0, 3600, "s", "length of a night, without a call")},
    .shown = {"dawn_rss_per_live", "first_dawn_rss_per_live", "peak_rss_bytes", "ns_per_op"},
    .takes_seconds = false,
});

}  // namespace
}  // namespace strata::cell
