#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>

#include "contenders/in_process.h"
#include "harness/cell.h"
#include "harness/probe.h"
#include "scenarios/draw.h"

/// \file  Producers and consumers share a bounded queue of 64-byte blocks: the load of a device
/// driver or a logger. Blocks are allocated and freed under the queue's mutex. So a pool needs
/// exactly as many blocks as the queue has places, and everyone waits while the allocator works.
///
///   producer, each tick    initialises 1 to 64 random bytes of a message; under the mutex: drops
///                          it if the queue is full, else allocates a block and copies 64 bytes
///   consumer, each tick    under the mutex: copies the oldest message out, if there is any, and
///                          frees its block; then checks it and spins for 1 to 5 ticks of work
///
/// A thread sleeps 50 to 200 µs after every 64 iterations. Each producer makes --ticks iterations.
/// Consumers stop when the producers are done; what is left in the queue is then counted. So the
/// ticks, not --seconds, end this load.
/// With --single-thread one thread sends in each tick and polls the queue 0 to 2 times, so the
/// queue runs full and empty, too.
///
/// Always: sent + dropped == producers * ticks, received <= sent, left + received == sent; and
/// every message arrives as it was sent.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kAll;
constexpr std::size_t kMessageBytes = 64;
constexpr std::size_t kDrawn = std::size_t{1} << 12;  // ticks of a thread; then they repeat
constexpr std::uint64_t kIterationsAwake = 64;
constexpr std::uint32_t kSpinRounds = 256;  // of a tick of work: some 100 ns

/// What a thread does in a tick.
struct Tick {
  std::uint8_t length;  // of the part that is initialised
  std::uint8_t spins;   // ticks of work after a message
  std::uint8_t looks;   // polls of the queue, by a single thread
  std::uint8_t sleep_us;
  std::uint32_t first_byte;  // of the message, in Draws::bytes
};

/// Drawn once for all threads, which start at different positions.
struct Draws {
  explicit Draws(std::uint64_t seed) : ticks(kDrawn), bytes(kDrawn + kMessageBytes) {
    std::mt19937_64 random(seed);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    for (Tick& tick : ticks) {
      tick.length = static_cast<std::uint8_t>(between(random, 1, kMessageBytes));
      tick.spins = static_cast<std::uint8_t>(between(random, 1, 5));
      tick.looks = static_cast<std::uint8_t>(between(random, 0, 2));
      tick.sleep_us = static_cast<std::uint8_t>(between(random, 50, 200));
      tick.first_byte = between(random, 0, kDrawn - 1);
    }
  }

  OwnMemory<Tick> ticks;
  OwnMemory<unsigned char> bytes;
};

/// The counters of one thread.
struct Tally {
  std::uint64_t sent = 0;
  std::uint64_t dropped = 0;
  std::uint64_t received = 0;
};

/// Times a share of a thread's operations. Counts only those that moved a message: polling a full
/// or empty queue does not use the contender.
class Sampler {
 public:
  Sampler(Worker& worker, double rate) noexcept
      // so that a short load has a sample
      : worker_(worker), rate_(rate), owed_(rate > 0 ? 1 : 0) {}

  /// \returns  The result of operation(): whether it moved a message.
  template <typename Operation>
  bool time(LatencyKind kind, Operation operation) {
    owed_ = std::min(owed_ + rate_, 2.0);  // polls without a message are not made up for in a row
    if (owed_ < 1) return operation();
    const std::uint64_t started = Stopwatch::start();
    const bool is_moved = operation();
    const std::uint64_t ticks = Stopwatch::stop() - started;
    if (is_moved) {
      worker_.latencies[kind].record(Stopwatch::picoseconds(ticks));
      owed_ -= 1;
    }
    return is_moved;
  }

  Worker& worker() noexcept { return worker_; }

 private:
  Worker& worker_;
  double rate_;
  double owed_;
};

template <typename Memory>
class Queue {
 public:
  Queue(Memory& memory, std::size_t capacity, bool is_shared)
      : memory_(memory), entries_(capacity), is_shared_(is_shared) {}

  /// Sends a message. `tick` travels with the block and determines the expected contents.
  /// \returns  False if the message is dropped: the queue is full, or (a counted failure) the
  ///           contender has no block although the queue has a place.
  bool send(const unsigned char* message, std::uint32_t tick, Worker& worker) {
    const auto guard = lock();
    if (count_ == entries_.size()) return false;
    void* block = memory_.allocate(kMessageBytes);
    if (block == nullptr) {
      ++worker.failed_allocations;
      return false;
    }
    ++worker.allocations;
    std::memcpy(block, message, kMessageBytes);
    entries_[(first_ + count_++) % entries_.size()] = {block, tick};
    return true;
  }

  /// \returns  False if the queue is empty.
  bool receive(unsigned char* message, std::uint32_t& tick, Worker& worker) {
    const auto guard = lock();
    if (count_ == 0) return false;
    const Entry entry = entries_[first_];
    first_ = (first_ + 1) % entries_.size();
    --count_;
    std::memcpy(message, entry.block, kMessageBytes);
    memory_.deallocate(entry.block, kMessageBytes);
    ++worker.frees;
    tick = entry.tick;
    return true;
  }

  /// \threads  One, while no other uses the queue.
  std::size_t left() const noexcept { return count_; }

 private:
  struct Entry {
    void* block;
    std::uint32_t tick;
  };

  /// Locks nothing if there is a single thread, which would not use a mutex.
  std::unique_lock<std::mutex> lock() {
    return is_shared_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }

  Memory& memory_;
  OwnMemory<Entry> entries_;  // a ring: count_ of them from first_ on
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool is_shared_;
  std::mutex mutex_;  // guards all of the above
};

/// One thread of the load.
template <typename Memory>
class Party {
 public:
  Party(Queue<Memory>& queue, const Draws& draws, Sampler sampler, LatencyKind enqueue,
        LatencyKind dequeue)
      : queue_(queue),
        draws_(draws),
        sampler_(sampler),
        enqueue_(enqueue),
        dequeue_(dequeue),
        next_(sampler.worker().seed % kDrawn) {}

  void send() {
    const auto number = static_cast<std::uint32_t>(next_++ % kDrawn);
    const Tick& tick = draws_.ticks[number];
    std::memcpy(message_, &draws_.bytes[tick.first_byte], tick.length);  // the rest is stale
    const bool is_sent =
        sampler_.time(enqueue_, [&] { return queue_.send(message_, number, sampler_.worker()); });
    ++(is_sent ? tally_.sent : tally_.dropped);
  }

  /// \returns  False if the queue was empty.
  bool receive() {
    std::uint32_t number = 0;
    const bool is_received = sampler_.time(
        dequeue_, [&] { return queue_.receive(message_, number, sampler_.worker()); });
    if (!is_received) return false;
    ++tally_.received;
    const Tick& tick = draws_.ticks[number];
    if (std::memcmp(message_, &draws_.bytes[tick.first_byte], tick.length) != 0) {
      report_corruption({nullptr, kMessageBytes, 0});
    }
    return true;
  }

  /// Works after receiving a message.
  void work() const noexcept {
    const std::uint32_t rounds = draws_.ticks[next_ % kDrawn].spins * kSpinRounds;
    for (std::uint32_t i = 0; i < rounds; ++i) {
      // A compiler barrier, so that the loop is kept.
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }

  std::uint8_t looks() const noexcept { return draws_.ticks[next_ % kDrawn].looks; }

  void rest_sometimes() {
    if (++iterations_ % kIterationsAwake != 0) return;
    timespec nap{0, draws_.ticks[next_++ % kDrawn].sleep_us * 1000L};
    ::nanosleep(&nap, nullptr);
  }

  const Tally& tally() const noexcept { return tally_; }

 private:
  Queue<Memory>& queue_;
  const Draws& draws_;
  Sampler sampler_;
  LatencyKind enqueue_;
  LatencyKind dequeue_;
  std::size_t next_;
  std::uint64_t iterations_ = 0;
  Tally tally_;
  unsigned char message_[kMessageBytes] = {};
};

struct Plan {
  explicit Plan(const Cell& cell)
      : producers(cell.flag("single-thread") ? 1 : static_cast<int>(cell.count("producers"))),
        consumers(cell.flag("single-thread") ? 0 : static_cast<int>(cell.count("consumers"))),
        ticks(cell.count("ticks")),
        capacity(cell.count("capacity")) {
    // --ops bounds the load as everywhere; an operation is a tick of a producer.
    if (cell.ops() != 0) {
      const auto each = cell.ops() / static_cast<std::uint64_t>(producers);
      ticks = std::max<std::uint64_t>(1, std::min(ticks, each));
    }
  }
  bool is_single() const noexcept { return consumers == 0; }

  int producers;
  int consumers;
  std::uint64_t ticks;  // of each producer
  std::size_t capacity;
};

template <typename Memory>
Tally run_alone(const Plan& plan, Party<Memory> party) {
  for (std::uint64_t tick = 0; tick < plan.ticks; ++tick) {
    party.send();
    for (int looks = party.looks(); looks > 0; --looks) {
      if (party.receive()) party.work();
    }
    party.rest_sometimes();
  }
  return party.tally();
}

template <typename Memory>
Tally produce(const Plan& plan, Party<Memory> party) {
  for (std::uint64_t tick = 0; tick < plan.ticks; ++tick) {
    party.send();
    party.rest_sometimes();
  }
  return party.tally();
}

template <typename Memory>
Tally consume(const std::atomic<int>& producing, Party<Memory> party) {
  while (producing.load(std::memory_order_relaxed) != 0) {  // only a hint to leave
    if (party.receive()) party.work();
    party.rest_sometimes();
  }
  return party.tally();
}

void check_sums(const Plan& plan, const Tally& sum, std::uint64_t left) {
  const std::uint64_t made = static_cast<std::uint64_t>(plan.producers) * plan.ticks;
  if (sum.sent + sum.dropped != made || sum.received > sum.sent ||
      left + sum.received != sum.sent) {
    fail_wrong_work(fmt::format("of {} messages {} were sent, {} dropped, {} received and {} left",
                                made, sum.sent, sum.dropped, sum.received, left));
  }
}

template <typename Memory>
void run_queue(Cell& cell, const Plan& plan, Memory& memory) {
  const LatencyKind enqueue = cell.add_latency("enqueue");
  const LatencyKind dequeue = cell.add_latency("dequeue");
  const Draws draws(cell.seed());
  const int threads = plan.producers + plan.consumers;
  cell.worker(threads - 1);
  Queue<Memory> queue(memory, plan.capacity, !plan.is_single());
  OwnMemory<Tally> tallies(static_cast<std::size_t>(threads));
  std::atomic<int> producing{plan.producers};
  const auto party = [&](Worker& worker, double sample_rate) {
    return Party<Memory>(queue, draws, Sampler(worker, sample_rate), enqueue, dequeue);
  };

  cell.begin_load();
  const double started = now_s();
  cell.run_threads(threads, [&](Worker& worker) {
    Tally& tally = tallies[worker.index()];
    if (plan.is_single()) {
      tally = run_alone(plan, party(worker, cell.sample_rate()));
    } else if (worker.thread < plan.producers) {
      tally = produce(plan, party(worker, cell.sample_rate()));
      producing.fetch_sub(1, std::memory_order_relaxed);
    } else {
      tally = consume(producing, party(worker, cell.sample_rate()));
    }
  });
  const double wall_s = now_s() - started;
  cell.end_load();

  Tally sum;
  for (const Tally& tally : tallies) {
    sum.sent += tally.sent;
    sum.dropped += tally.dropped;
    sum.received += tally.received;
  }
  std::uint64_t left = 0;
  for (Party<Memory> last = party(cell.worker(0), 0); last.receive();) ++left;
  check_sums(plan, sum, left);

  std::uint64_t samples = 0;
  for (int i = 0; i < threads; ++i) {
    samples += cell.worker(i).latencies[enqueue].count + cell.worker(i).latencies[dequeue].count;
  }
  cell.metric("wall_s", wall_s);
  cell.metric("sent", static_cast<double>(sum.sent));
  cell.metric("dropped", static_cast<double>(sum.dropped));
  cell.metric("received", static_cast<double>(sum.received));
  cell.metric("left", static_cast<double>(left));
  cell.metric("samples", static_cast<double>(samples));
  cell.finish();
}

void queue(Cell& cell) {
  const Plan plan(cell);
  Needs needs;
  needs.smallest_bytes = needs.largest_bytes = kMessageBytes;
  needs.live_blocks = plan.capacity;
  needs.threads = plan.producers + plan.consumers;
  with_contender<kFits>(cell, needs, [&](auto& memory) { run_queue(cell, plan, memory); });
}

const Registration<queue> kQueue({
    .name = "queue",
    .purpose = "producers and consumers over a bounded queue of 64-byte blocks under a mutex",
    .fits = kFits,
    .options = {Option::count("producers", 2, 1, 512, "threads", "number of threads that send"),
                Option::count("consumers", 2, 1, 512, "threads", "number of threads that receive"),
                Option::count("ticks", 100'000, 1, 1'000'000'000'000, "ticks",
                              "number of ticks of each producer"),
                Option::count("capacity", 64, 1, 10'000'000, "messages", "capacity of the queue"),
                Option::flag("single-thread", "one thread sends and receives, without a mutex")},
    .shown = {"wall_s", "sent", "dropped", "received", "left"},
    .takes_threads = false,
    .takes_seconds = false,
});

}  // namespace
}  // namespace strata::cell
