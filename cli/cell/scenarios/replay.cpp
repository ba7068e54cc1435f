#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "harness/cell.h"
#include "harness/resident.h"
#include "harness/scenario.h"
#include "replay/player.h"
#include "replay/routes.h"

/// \file  Replays the calls of a recorded program. Each thread makes its calls in order, and waits
/// where it needs an object of another thread. `strata replay` writes the plan.
///
/// All memory of the replay itself is resident before the load begins. So peak_gain_bytes is the
/// allocator's growth: the program's objects, and its overhead.

namespace strata::cell {
namespace {

/// The maximum number of streams that time calls: their histograms are memory of the harness.
constexpr std::size_t kTimedStreams = 64;

class PlanFile {
 public:
  explicit PlanFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ < 0) throw std::runtime_error("the plan '" + path + "' cannot be opened");
    read_plan(fd_, 0, &header_, sizeof header_);
    if (std::memcmp(header_.magic, plan::kMagic, sizeof header_.magic) != 0) {
      throw std::runtime_error("'" + path + "' is not a plan of strata replay");
    }
    streams_ = OwnMemory<plan::Stream>(header_.streams);
    read_plan(fd_, sizeof header_, streams_.data(), header_.streams * sizeof(plan::Stream));
  }
  ~PlanFile() { ::close(fd_); }
  PlanFile(const PlanFile&) = delete;
  PlanFile& operator=(const PlanFile&) = delete;

  int fd() const noexcept { return fd_; }
  const plan::Header& header() const noexcept { return header_; }
  const plan::Stream& stream(std::size_t i) const noexcept { return streams_[i]; }

  void read_epochs(Epochs& epochs) const {
    OwnMemory<std::uint32_t> threads(header_.epochs);
    read_plan(fd_, sizeof header_ + header_.streams * sizeof(plan::Stream), threads.data(),
              header_.epochs * sizeof(std::uint32_t));
    for (std::size_t i = 0; i < header_.epochs; ++i) epochs.set_threads(i, threads[i]);
  }

 private:
  int fd_;
  plan::Header header_{};
  OwnMemory<plan::Stream> streams_;
};

rusage usage_so_far() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage;
}

template <Touch kTouch, typename Route>
class Replay final : public Team {
 public:
  using Performer = Player<kTouch, Route>;

  Replay(Cell& cell, const PlanFile& file)
      : Team(file.header().shared_slots, file.header().epochs, cell.live_bytes()),
        cell_(cell),
        file_(file),
        route_(file.header()),
        threads_(file.header().streams) {
    constexpr double kLongestInterval = 1e9;
    const double interval =
        cell.sample_rate() > 0 ? std::min(1 / cell.sample_rate(), kLongestInterval) : 0;
    file.read_epochs(epochs);
    for (std::size_t i = 0; i < file.header().streams; ++i) {
      Worker& worker = cell.worker(static_cast<int>(i));
      const bool is_timed = i < kTimedStreams && interval > 0;
      for (LatencyKind kind = kAlloc; is_timed && kind <= kReallocLatency; ++kind) {
        worker.latencies[kind].buckets = OwnMemory<std::uint64_t>(LogBuckets::kCount);
      }
      players_.push_back(std::make_unique<Performer>(worker, *this, route_, file.fd(),
                                                     file.stream(i), is_timed ? interval : 0));
    }
  }

  void run() {
    resident_ = resident_bytes();
    cell_.begin_load();
    const double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    const double from = now_s();
    const long faults = usage_so_far().ru_minflt;
    began_ns = static_cast<std::uint64_t>(from * 1e9);
    if (!players_.empty()) players_.front()->play();
    join();
    elapsed_s_ = now_s() - from;
    cpu_s_ = clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu -
             1e-9 * static_cast<double>(Patience::cpu_ns_of_all());
    const rusage usage = usage_so_far();
    faults_ = usage.ru_minflt - faults;
    peak_ = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    peak_ -= std::min(peak_, table_bytes->load(std::memory_order_relaxed));
    cell_.end_load();
    if (const std::string& map = cell_.text("map"); map != "none") write_map(map);
    for (auto& player : players_) {
      player->for_each_left([&](Block& block) { player->drain(block); });
    }
  }

  void tell() {
    const plan::Header& header = file_.header();
    const auto calls = static_cast<double>(header.calls);
    const double gain = peak_ > resident_ ? static_cast<double>(peak_ - resident_) : 0;
    if (calls > 0) cell_.metric("cpu_ns_per_op", 1e9 * cpu_s_ / calls);
    cell_.metric("elapsed_s", elapsed_s_);
    cell_.metric("cpu_s", cpu_s_);
    if (const double allocator_s = time_in_allocator(); allocator_s > 0) {
      cell_.metric("allocator_s", allocator_s);
    }
    cell_.metric("peak_gain_bytes", gain);
    cell_.metric("peak_live_bytes", static_cast<double>(header.peak_live_bytes));
    if (header.peak_live_bytes > 0) {
      cell_.metric("rss_per_live", gain / static_cast<double>(header.peak_live_bytes));
    }
    cell_.metric("replay_faults", static_cast<double>(faults_));
    cell_.metric("ops", calls);
  }

  void start(std::uint64_t stream) override {
    Thread& thread = threads_[stream];
    thread.replay = this;
    thread.number = stream;
    if (::pthread_create(&thread.handle, nullptr, &Replay::run_thread, &thread) != 0) {
      fail_wrong_work("a thread of the trace could not be started");
    }
    // release: with join(), publishes the handle
    std::atomic_ref(thread.is_started).store(1, std::memory_order_release);
  }

 private:
  struct Thread {
    Replay* replay;
    std::uint64_t number;
    pthread_t handle;
    std::uint32_t is_started;
  };

  static void* run_thread(void* argument) {
    const Thread& thread = *static_cast<Thread*>(argument);
    try {
      thread.replay->players_[thread.number]->play();
    } catch (const std::exception& error) {
      fail_wrong_work(error.what());
    }
    return nullptr;
  }

  void join() {
    for (std::size_t i = 1; i < threads_.size(); ++i) {
      // acquire: with start(), which another thread may be about to call
      for (Patience patience;
           std::atomic_ref(threads_[i].is_started).load(std::memory_order_acquire) == 0;) {
        patience.wait();
      }
      ::pthread_join(threads_[i].handle, nullptr);
    }
  }

  /// Estimates the time of all calls from the timed ones, without the cost of timing. Leaves out
  /// the slowest in a thousand of each kind: most of them waited for the machine, and one would
  /// outweigh all others.
  double time_in_allocator() {
    double mean_sum_ns = 0;
    double timed = 0;
    for (LatencyKind kind = kAlloc; kind <= kReallocLatency; ++kind) {
      std::uint64_t count = 0;
      OwnMemory<std::uint64_t> buckets(LogBuckets::kCount);
      for (std::size_t i = 0; i < players_.size(); ++i) {
        Latencies& part = cell_.worker(static_cast<int>(i)).latencies[kind];
        count += part.count;
        for (std::size_t b = 0; b < part.buckets.size(); ++b) buckets[b] += part.buckets[b];
      }
      std::uint64_t left = count - count / 1000;
      double ns = 0;
      for (std::size_t b = 0; left > 0 && b < buckets.size(); ++b) {
        const std::uint64_t taken = std::min(left, buckets[b]);
        ns += static_cast<double>(taken * LogBuckets::lower_of(b)) / 1000;
        left -= taken;
      }
      const auto kept = static_cast<double>(count - count / 1000);
      if (kept > 0) {
        mean_sum_ns += static_cast<double>(count) * std::max(0.0, ns / kept - Stopwatch::cost_ns());
      }
      timed += static_cast<double>(count);
    }
    return timed > 0 ? 1e-9 * mean_sum_ns / timed * static_cast<double>(file_.header().calls) : 0;
  }

  /// Writes address and size of each remaining object, as 64-bit numbers.
  void write_map(const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) throw std::runtime_error("'" + path + "' cannot be written");
    constexpr std::size_t kPairs = 4096;
    OwnMemory<std::uint64_t> pairs(2 * kPairs);
    std::size_t used = 0;
    const auto flush = [&] {
      const std::size_t bytes = used * sizeof(std::uint64_t);
      if (::write(fd, pairs.data(), bytes) != static_cast<ssize_t>(bytes)) {
        throw std::runtime_error("'" + path + "' could not be written");
      }
      used = 0;
    };
    for (auto& player : players_) {
      player->for_each_left([&](const Block& block) {
        pairs[used++] = reinterpret_cast<std::uintptr_t>(block.address);
        pairs[used++] = block.bytes;
        if (used == 2 * kPairs) flush();
      });
    }
    flush();
    ::close(fd);
  }

  Cell& cell_;
  const PlanFile& file_;
  Route route_;
  OwnMemory<Thread> threads_;
  std::vector<std::unique_ptr<Performer>> players_;
  std::uint64_t resident_ = 0;
  std::uint64_t peak_ = 0;
  long faults_ = 0;
  double elapsed_s_ = 0;
  double cpu_s_ = 0;
};

template <Touch kTouch, typename Route>
void replay_with(Cell& cell, const PlanFile& file) {
  Replay<kTouch, Route> replay(cell, file);
  replay.run();
  replay.tell();
  cell.finish();
}

template <typename Route>
void replay_through(Cell& cell, const PlanFile& file) {
  const std::string& touch = cell.text("touch");
  if (touch == "none") return replay_with<Touch::kNone, Route>(cell, file);
  if (touch == "all") return replay_with<Touch::kAll, Route>(cell, file);
  replay_with<Touch::kWritten, Route>(cell, file);
}

void replay(Cell& cell) {
  if (cell.text("plan") == "none") {
    report_unfit("has nothing to replay: strata replay takes a trace");
  }
  const PlanFile file(cell.text("plan"));
  cell.add_latency("realloc");
  const std::string& route = cell.text("route");
  if (route == "arena") return replay_through<ArenaRoute>(cell, file);
  if (route == "block") return replay_through<BlockRoute>(cell, file);
  if (route == "bitmap") return replay_through<BitmapRoute>(cell, file);
  if (route == "heap") return replay_through<HeapRoute>(cell, file);
  if (route == "heaps") return replay_through<HeapsRoute>(cell, file);
  if (route == "reuse") return replay_through<ReuseRoute>(cell, file);
  replay_through<NoRoute>(cell, file);
}

const Registration<replay> kReplay({
    .name = "replay",
    .purpose = "the calls of a recorded program",
    .fits = Fits::kMalloc,
    .options = {Option::path("plan", "the plan that strata replay wrote"),
                Option::choice("touch", "written", {"written", "all", "none"},
                               "what is written into each object"),
                Option::choice("route", "none",
                               {"none", "arena", "block", "bitmap", "heap", "heaps", "reuse"},
                               "what the calls of one place go to"),
                Option::path("map", "where addresses are written at the end")},
    .shown = {"cpu_ns_per_op", "allocator_s", "elapsed_s", "peak_gain_bytes", "rss_per_live"},
    .takes_threads = false,
    .takes_seconds = false,
    .settle_s = 0.2,
    .is_listed = false,
});

}  // namespace
}  // namespace strata::cell
