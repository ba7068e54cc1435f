// Heaps and the malloc, if that is Strata's, under one limit of the process: STRATA_HARD_LIMIT=64m.
//
// usage: heap_limits share      what one has idle serves the others
//        heap_limits contend    four threads, each with a heap or the malloc of its own, whose live
//                               bytes fit the limit together: nobody is refused, nothing passes it
//        heap_limits soft       under STRATA_SOFT_LIMIT=48m instead: idle memory of all goes back

#include <strata/heap.hpp>

#include <atomic>
#include <cstring>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "operations/strata_api.h"

namespace {

using strata::Heap;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kLimit = 64 * kMiB;

bool has_our_malloc() {
  mallinfo2();  // a weak name alone does not bring its object file in from the archive
  return strata_stats_json != nullptr;
}

/// A heap, or the malloc.
class Memory {
 public:
  enum class Kind : std::uint8_t { kHeap, kMalloc };
  explicit Memory(Kind kind) : kind_(kind), heap_(keeping()) {}

  void* allocate(std::size_t bytes) {
    void* const p = kind_ == Kind::kMalloc ? malloc(bytes) : heap_.allocate(bytes);
    if (p != nullptr) std::memset(p, static_cast<int>(bytes % 251), bytes);
    return p;
  }
  void deallocate(void* p, std::size_t bytes) {
    const auto* const contents = static_cast<const unsigned char*>(p);
    CHECK(contents[0] == bytes % 251 && contents[bytes - 1] == bytes % 251, "a block was damaged");
    kind_ == Kind::kMalloc ? free(p) : heap_.deallocate(p);
  }
  std::size_t figure(const char* name) const {
    static thread_local char buffer[32 << 10];
    CHECK(heap_.write_statistics_json(buffer, sizeof buffer) < sizeof buffer,
          "32 KiB were too few");
    return kind_ == Kind::kMalloc ? stats_number(name) : stats_number(name, buffer);
  }

 private:
  static Heap::Options keeping() {
    Heap::Options options;
    options.reclaims = false;
    return options;
  }

  const Kind kind_;
  Heap heap_;
};

struct Block {
  void* address;
  std::size_t bytes;
};

/// \returns  false if an allocation was refused
bool fill(Memory& memory, std::size_t total, std::size_t bytes, std::vector<Block>& blocks) {
  for (std::size_t got = 0; got < total; got += bytes) {
    void* const p = memory.allocate(bytes);
    if (p == nullptr) return false;
    blocks.push_back({p, bytes});
  }
  return true;
}
void free_all(Memory& memory, std::vector<Block>& blocks) {
  for (const Block& each : blocks) memory.deallocate(each.address, each.bytes);
  blocks.clear();
}

Memory::Kind last_kind() { return has_our_malloc() ? Memory::Kind::kMalloc : Memory::Kind::kHeap; }

void share() {
  Memory memories[] = {Memory(Memory::Kind::kHeap), Memory(Memory::Kind::kHeap),
                       Memory(last_kind())};
  std::vector<Block> blocks;
  blocks.reserve(400'000);
  for (const std::size_t bytes : {200u, 3000u, 70'000u, 300'000u, 2'000'000u}) {
    for (Memory& memory : memories) {
      CHECK(fill(memory, kLimit * 5 / 8, bytes, blocks),
            "what others have idle was not given back");
      CHECK(memory.figure("process_held_bytes") <= kLimit, "more is held than the limit");
      CHECK(!fill(memory, kLimit, bytes, blocks), "there is no limit");
      free_all(memory, blocks);
    }
  }
  for (const Memory& memory : memories) {
    CHECK(memory.figure("process_hard_bytes") == kLimit, "it is not the limit that was set");
    CHECK(memory.figure("process_peak_bytes") <= kLimit, "the limit was passed");
    CHECK(memory.figure("process_held_bytes") == memories[0].figure("process_held_bytes"),
          "they do not count together");
  }
}

void contend() {
  constexpr std::size_t kLive = 6 * kMiB;
  constexpr int kThreads = 4;
  std::atomic<int> running{kThreads};
  Memory watched(Memory::Kind::kHeap);
  CHECK(watched.allocate(100) != nullptr, "an allocation failed");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&running, t] {
      Memory memory(t == 0 ? last_kind() : Memory::Kind::kHeap);
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<Block> blocks;
      blocks.reserve(100'000);
      for (int round = 0; round < 20; ++round) {
        const std::size_t largest = std::size_t{64} << random() % 16;
        for (std::size_t live = 0; live < kLive;) {
          const std::size_t bytes = random() % largest + 1;
          CHECK(fill(memory, 1, bytes, blocks), "refused, although idle memory was there");
          live += bytes + 48;
        }
        free_all(memory, blocks);
      }
      --running;
    });
  }
  while (running != 0) {
    CHECK(watched.figure("process_held_bytes") <= kLimit, "more is held than the limit");
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(watched.figure("process_peak_bytes") <= kLimit, "the limit was passed");
}

void soft() {
  constexpr std::size_t kSoft = 48 * kMiB;
  Memory idle(Memory::Kind::kHeap);
  Memory busy(last_kind());
  std::vector<Block> blocks;
  CHECK(fill(idle, 30 * kMiB, 300'000, blocks), "an allocation failed");
  free_all(idle, blocks);
  CHECK(idle.figure("free") >= 30 * kMiB, "below the limit it went back");
  CHECK(fill(busy, 40 * kMiB, 300'000, blocks), "a soft limit refused memory");
  CHECK(idle.figure("free") < kMiB, "above the limit idle memory stayed");
  CHECK(idle.figure("process_held_bytes") < kSoft + kSoft / 32, "more is held than must be");
  CHECK(idle.figure("process_soft_bytes") == kSoft, "it is not the limit that was set");
}

}  // namespace

int main(int, char** argv) {
  const std::string_view what = argv[1];
  if (what == "share") share();
  if (what == "contend") contend();
  if (what == "soft") soft();
  return 0;
}
