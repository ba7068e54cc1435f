// The long run: many rounds of changing load. After each round the process comes to rest, and its
// memory is checked.
//
//   soak SECONDS [OPERATIONS [THREADS]]
//
// Every block carries its own address and size at both ends, and is checked when it is freed: so a
// block that was handed out twice is found. At rest everything is freed: the live bytes must be
// what they were before the first round, the statistics must add up, and memory must not creep. A
// round may hold no more than the second round with the same load, except for the bookkeeping of
// what was held at the peak. (In the first one the other loads had no bookkeeping yet.) Ends with
// status 1 at the first error, or if fewer than OPERATIONS allocations and frees were made. Without
// THREADS there are 4.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "operations/strata_api.h"
#include "support/memory.h"

namespace {

using Clock = std::chrono::steady_clock;

// Chosen: enough rounds to show a trend, and each long enough for the scavenger to work.
constexpr int kRounds = 24;
// Chosen: the noise of pages of stacks, of the C library, and of partly used spans.
constexpr std::size_t kCreepBytes = 2 * kMiB;
// The bookkeeping of a heap stays, for the next one of its size: less than this part of the heap.
constexpr std::size_t kBookkeepingPart = 100;

/// xorshift64*: drawing must not cost more than the calls it draws for.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
  }
  std::size_t below(std::size_t bound) { return (next() >> 33) % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }
};

struct Block {
  char* start = nullptr;
  std::size_t bytes = 0;
  bool is_by_new = false;
};

std::uint64_t stamp_of(const Block& block) {
  return reinterpret_cast<std::uint64_t>(block.start) * 0x9e3779b97f4a7c15 + block.bytes;
}

void stamp(const Block& block) {
  const std::uint64_t value = stamp_of(block);
  std::memcpy(block.start, &value, sizeof value);
  std::memcpy(block.start + block.bytes - sizeof value, &value, sizeof value);
}

void check(const Block& block) {
  std::uint64_t first;
  std::uint64_t last;
  std::memcpy(&first, block.start, sizeof first);
  std::memcpy(&last, block.start + block.bytes - sizeof last, sizeof last);
  CHECK(first == stamp_of(block) && last == stamp_of(block), "a block was overwritten");
}

/// Sizes for one kind of load: from `least` to `most`, small ones far more often.
struct Sizes {
  std::size_t least;
  std::size_t most;

  std::size_t draw(Random& random) const {
    const unsigned doublings = 63 - static_cast<unsigned>(__builtin_clzll(most / least));
    const std::size_t scale = least << random.below(doublings + 1);
    return std::min(scale + random.below(scale), most);
  }
};

Block make(std::size_t bytes, Random& random) {
  Block block;
  block.bytes = bytes;
  if (random.one_in(16)) {
    block.start = static_cast<char*>(calloc(1, bytes));
  } else if (random.one_in(16)) {
    block.start = static_cast<char*>(aligned_alloc(std::size_t{32} << random.below(8), bytes));
  } else if (random.one_in(8)) {
    block.start = static_cast<char*>(::operator new(bytes, std::nothrow));
    block.is_by_new = true;
  } else {
    block.start = static_cast<char*>(malloc(bytes));
  }
  CHECK(block.start != nullptr, "out of memory");
  stamp(block);
  return block;
}

void drop(Block& block) {
  if (block.start == nullptr) return;
  check(block);
  if (block.is_by_new) {
    ::operator delete(block.start, block.bytes);
  } else {
    free(block.start);
  }
  block.start = nullptr;
}

void resize(Block& block, std::size_t bytes) {
  check(block);
  const std::uint64_t before = stamp_of(block);
  auto* moved = static_cast<char*>(realloc(block.start, bytes));
  CHECK(moved != nullptr, "out of memory");
  std::uint64_t kept;
  std::memcpy(&kept, moved, sizeof kept);
  CHECK(kept == before, "realloc lost the contents");
  block = {moved, bytes, false};
  stamp(block);
}

/// Blocks that the threads of a round exchange. Each thread takes blocks from its own slots and,
/// one time in eight, exchanges one with another thread, so that some blocks are freed where they
/// were not allocated.
struct Exchange {
  std::atomic<Block*> slots[256] = {};

  Block* swap(Random& random, Block* block) {
    return slots[random.below(256)].exchange(block, std::memory_order_acq_rel);
  }
};

struct Load {
  const char* name;
  Sizes sizes;
  std::size_t slots;  ///< live blocks of a thread
  bool is_shared;     ///< blocks wander between the threads
  bool has_short_threads;
};

constexpr Load kLoads[] = {
    {"small", {16, 1024}, 50'000, false, false},
    {"mixed", {16, 32 * kKiB}, 4'000, false, false},
    {"wandering", {16, 4 * kKiB}, 8'000, true, false},
    {"large", {64 * kKiB, 4 * kMiB}, 24, false, false},
    {"short threads", {16, 8 * kKiB}, 500, true, true},
    {"tiny", {16, 64}, 200'000, false, false},
};

std::atomic<std::uint64_t> g_operations{0};

void work(const Load& load, std::uint64_t seed, Exchange& exchange, Clock::time_point end) {
  Random random{seed | 1};
  std::vector<Block> blocks(load.slots);
  std::uint64_t operations = 0;
  do {
    for (int i = 0; i < 2000; ++i) {
      Block& block = blocks[random.below(blocks.size())];
      if (block.start != nullptr && !block.is_by_new && random.one_in(8)) {
        resize(block, load.sizes.draw(random));
      } else if (block.start != nullptr && load.is_shared && random.one_in(8)) {
        Block* wandering = exchange.swap(random, new Block(block));
        block = wandering != nullptr ? *wandering : Block{};
        delete wandering;
      } else {
        drop(block);
        block = make(load.sizes.draw(random), random);
      }
      operations += 2;
    }
    // Now and then a burst ends: most blocks are freed, and the next burst builds on the others.
    if (random.one_in(500)) {
      for (Block& block : blocks) {
        if (!random.one_in(50)) drop(block);
      }
    }
  } while (Clock::now() < end);
  for (Block& block : blocks) drop(block);
  g_operations.fetch_add(operations, std::memory_order_relaxed);
}

void run(const Load& load, int thread_count, std::uint64_t seed, Clock::time_point end) {
  Exchange exchange;
  do {
    const auto now = Clock::now();
    const auto pause = load.has_short_threads ? now + std::chrono::milliseconds(5) : end;
    std::vector<std::thread> threads;
    for (int t = 0; t < thread_count; ++t)
      threads.emplace_back(work, std::cref(load), seed * thread_count + t, std::ref(exchange),
                           pause);
    for (std::thread& thread : threads) thread.join();
    ++seed;
  } while (Clock::now() < end);
  for (std::atomic<Block*>& slot : exchange.slots) {
    Block* block = slot.load(std::memory_order_acquire);
    if (block == nullptr) continue;
    drop(*block);
    delete block;
  }
}

bool statistics_add_up() {
  return stats_number("mapped") == stats_number("live") + stats_number("cached") +
                                       stats_number("free") + stats_number("metadata") +
                                       stats_number("returned");
}

/// While the numbers are read one after the other, the scavenger may return memory, which then is
/// in none of them or in two: so several looks.
void check_statistics(std::size_t live_before) {
  CHECK(stats_number("live") <= live_before + 64 * kKiB, "blocks are live that were freed");
  bool add_up = statistics_add_up();
  for (int look = 0; !add_up && look < 600; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    add_up = statistics_add_up();
  }
  CHECK(add_up, "the statistics do not add up");
}

/// Resident memory at rest. The scavenger may still be about to return something, on a busy machine
/// for a long time, so that one look may come too early.
/// \returns  the first value that is at most `enough`, or the last one
std::size_t resident_at_rest(std::size_t enough) {
  std::size_t rest = resident_bytes();
  for (int look = 0; rest > enough && look < 600; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    rest = resident_bytes();
  }
  return rest;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 0;
  const std::uint64_t least_operations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const int thread_count = argc > 3 ? std::atoi(argv[3]) : 4;
  CHECK(seconds > 0 && thread_count > 0, "usage: soak SECONDS [OPERATIONS [THREADS]]");
  setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("%5s  %-14s %14s %12s %12s\n", "round", "load", "operations", "peak KiB",
              "at rest KiB");
  const std::size_t live_before = stats_number("live");
  std::size_t usual_rest[std::size(kLoads)] = {};
  std::size_t highest_peak = 0;
  const auto round_time = std::chrono::duration<double>(seconds / kRounds);
  for (int round = 0; round < kRounds; ++round) {
    const std::size_t which = static_cast<std::size_t>(round) % std::size(kLoads);
    const Load& load = kLoads[which];
    reset_peak_resident_bytes();
    run(load, thread_count, static_cast<std::uint64_t>(round) + 1,
        Clock::now() + std::chrono::duration_cast<Clock::duration>(round_time));
    const std::size_t peak = peak_resident_bytes();
    strata_release_memory();
    check_statistics(live_before);
    highest_peak = std::max(highest_peak, peak);
    const std::size_t usual = usual_rest[which];
    const std::size_t enough = usual + std::max(kCreepBytes, highest_peak / kBookkeepingPart);
    const std::size_t rest = resident_at_rest(usual != 0 ? enough : SIZE_MAX);
    std::printf("%5d  %-14s %14" PRIu64 " %12zu %12zu\n", round + 1, load.name,
                g_operations.load(std::memory_order_relaxed), peak / kKiB, rest / kKiB);
    const bool has_all_been = static_cast<std::size_t>(round) >= std::size(kLoads);
    if (usual == 0 && has_all_been) usual_rest[which] = rest;
    CHECK(usual == 0 || rest <= enough, "memory creeps from round to round");
  }
  const std::uint64_t made = g_operations.load(std::memory_order_relaxed);
  CHECK(made >= least_operations, "fewer operations than asked for");
  std::printf("ok: %" PRIu64
              " operations, every block checked, statistics balanced after each round\n",
              made);
}
