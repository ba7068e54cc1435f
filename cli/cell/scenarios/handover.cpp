#include <atomic>
#include <thread>

#include "contenders/in_process.h"
#include "scenarios/draw.h"
#include "shared/sizes.h"

/// \file  Each producer thread only allocates, and sends its blocks through a ring to its own
/// consumer thread, which only frees. An allocator must carry freed memory from the consumer to the
/// producer, or it grows until the end.
/// \source  C. Lever, D. Boreham, "malloc() Performance in a Multithreaded Linux Environment",
///          2000; its second half is known as xmalloc-test.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kAll;
constexpr std::uint64_t kBatchOps = 20'000;
constexpr std::size_t kDrawn = std::size_t{1} << 16;
/// Blocks in flight. Few compared with a batch, so that producer and consumer keep step within it.
constexpr std::size_t kRing = 1024;

/// A ring for one producer and one consumer. Neither writes the other's index, and each rereads the
/// other's only after using up its last known value. A false block is a control word: the depth of
/// what follows, or the end.
class Channel {
 public:
  Channel() : ring_(kRing) {}

  void send(const Block& block) noexcept {
    const std::size_t at = written_.load(std::memory_order_relaxed);  // no other thread writes it
    // Acquires the consumer's last read of this place.
    while (at - read_seen_ == kRing) {
      read_seen_ = read_.load(std::memory_order_acquire);
      if (at - read_seen_ == kRing) std::this_thread::yield();
    }
    ring_[at % kRing] = block;
    written_.store(at + 1, std::memory_order_release);  // publishes the block and its contents
  }

  Block receive() noexcept {
    const std::size_t at = read_.load(std::memory_order_relaxed);  // no other thread writes it
    while (at == written_seen_) {
      written_seen_ = written_.load(std::memory_order_acquire);  // pairs with send()
      if (at == written_seen_) std::this_thread::yield();
    }
    const Block block = ring_[at % kRing];
    read_.store(at + 1, std::memory_order_release);  // lets the producer reuse the place
    return block;
  }

 private:
  OwnMemory<Block> ring_;
  alignas(64) std::atomic<std::size_t> written_{0};
  std::size_t read_seen_ = 0;  // the producer's
  alignas(64) std::atomic<std::size_t> read_{0};
  std::size_t written_seen_ = 0;  // the consumer's
};

constexpr std::uint32_t kStop = 1000;  // distinct from all values of Depth

/// Frees arriving blocks until a control word arrives.
/// \returns  The control word.
template <Depth kDepth, typename Memory>
std::uint32_t consume(Channel& channel, Memory& memory, Worker& worker) {
  Probe<kDepth> probe(worker);
  for (;;) {
    Block block = channel.receive();
    if (!block) return block.stamp;
    probe.deallocate(memory, block);
  }
}

template <typename Memory>
void consume_all(Channel& channel, Memory& memory, Worker& worker) {
  auto word = static_cast<std::uint32_t>(Depth::kPlain);
  while (word != kStop) {
    switch (static_cast<Depth>(word)) {
      case Depth::kPlain:
        word = consume<Depth::kPlain>(channel, memory, worker);
        break;
      case Depth::kTimed:
        word = consume<Depth::kTimed>(channel, memory, worker);
        break;
      case Depth::kVerified:
        word = consume<Depth::kVerified>(channel, memory, worker);
        break;
    }
  }
}

/// An operation is a block allocated and sent. The ring is short, so the time includes the
/// consumer's free.
template <typename Memory>
class Lane {
 public:
  Lane(Memory& memory, const Worker& worker, Worker& consumer, Sizes sizes)
      : memory_(memory),
        sizes_(worker.seed, [&](std::mt19937_64& random) { return sizes.draw(random); }) {
    consumer_ = std::thread([this, &consumer] { consume_all(channel_, memory_, consumer); });
  }

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    say(static_cast<std::uint32_t>(Probe::kLevel));
    for (std::uint64_t i = 0; i < kBatchOps; ++i) {
      const Block block = probe.allocate(memory_, sizes_.next());
      if (block) channel_.send(block);
    }
    return kBatchOps;
  }

  template <typename Probe>
  void drain(Probe&) {
    say(kStop);
    consumer_.join();
  }

 private:
  void say(std::uint32_t word) noexcept { channel_.send({nullptr, 0, word}); }

  Memory& memory_;
  Drawn<std::uint32_t, kDrawn> sizes_;
  Channel channel_;
  std::thread consumer_;
};

void handover(Cell& cell) {
  const Sizes sizes(cell.text("size-dist"), cell.count("size"));
  const int producers = cell.threads();
  Needs needs;
  needs.smallest_bytes = sizes.smallest();
  needs.largest_bytes = sizes.largest();
  needs.threads = 2 * producers;
  // Blocks in the ring, plus one held by each thread.
  needs.live_blocks = (kRing + 2) * static_cast<std::size_t>(producers);
  needs.expect_mean(sizes.mean());
  // consumers come after the producers; creates their workers before any thread starts
  cell.worker(2 * producers - 1);
  run_lanes<kFits>(cell, needs, [&](auto& memory, Worker& worker) {
    return Lane(memory, worker, cell.worker(producers + worker.thread), sizes);
  });
}

const Registration<handover> kHandover({
    .name = "handover",
    .purpose = "one thread only allocates, another only frees; --threads counts such pairs",
    .origin = "Lever and Boreham's producer and consumer (xmalloc-test)",
    .fits = kFits,
    .options = {Option::count("size", 64, 1, 1 << 20, "bytes",
                              "size of a block, or scale of the other distributions"),
                Option::sizes("fixed")},
});

}  // namespace
}  // namespace strata::cell
