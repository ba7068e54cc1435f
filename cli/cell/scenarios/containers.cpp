#include <list>
#include <map>
#include <new>
#include <random>
#include <string>
#include <unordered_map>

#include "contenders/in_process.h"
#include "scenarios/draw.h"

/// \file  Typical C++ container work: a map and a hash map from numbers to strings, a queue in a
/// list, a text that is built and discarded. The nodes are small, of a few sizes, long-lived, and
/// lie between short-lived strings. The time includes the containers' own work, as in a program.
///
/// Every value contains its key and is checked before it is destroyed, so memory with two owners
/// shows as a wrong value. (It may break a container's links first; then the cell crashes, which
/// fails the row as well.)

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::uint64_t kBatchRounds = 2'000;
constexpr std::uint64_t kOpsPerRound = 4;  // one per container
constexpr std::size_t kDrawn = std::size_t{1} << 16;
constexpr std::uint32_t kLongestString = 100;
constexpr std::size_t kTextEnds = 4096;

/// A standard allocator over a Memory; counts as a probe does. It stamps nothing, because the whole
/// block belongs to the container.
template <typename T, typename Memory>
struct ContainerAllocator {
  using value_type = T;

  ContainerAllocator(Memory& its_memory, Worker& its_worker) noexcept
      : memory(&its_memory), worker(&its_worker) {}
  template <typename U>
  ContainerAllocator(const ContainerAllocator<U, Memory>& other) noexcept  // NOLINT: rebinding
      : memory(other.memory), worker(other.worker) {}

  T* allocate(std::size_t count) {
    void* p = memory->allocate(count * sizeof(T));
    if (p == nullptr) {
      ++worker->failed_allocations;
      throw std::bad_alloc();
    }
    ++worker->allocations;
    return static_cast<T*>(p);
  }
  void deallocate(T* p, std::size_t count) noexcept {
    ++worker->frees;
    memory->deallocate(p, count * sizeof(T));
  }
  template <typename U>
  bool operator==(const ContainerAllocator<U, Memory>& other) const noexcept {
    return memory == other.memory;
  }

  Memory* memory;
  Worker* worker;
};

struct Draw {
  std::uint32_t key;
  std::uint32_t length;  // of the string
};

/// An operation is one on one container: insert a key or, if it is present, erase it; push an entry
/// and pop the oldest; append a piece of text.
template <typename Memory>
class Lane {
  template <typename T>
  using Allocator = ContainerAllocator<T, Memory>;
  using String = std::basic_string<char, std::char_traits<char>, Allocator<char>>;

 public:
  Lane(Memory& memory, Worker& worker, std::size_t elements)
      : elements_(elements),
        // At any time half of the keys are in a map.
        draws_(worker.seed,
               [&](std::mt19937_64& random) {
                 const std::uint32_t key = between(random, 0, 2 * elements - 1);
                 return Draw{key, between(random, 1, kLongestString)};
               }),
        characters_(memory, worker),
        map_(std::less<>(), characters_),
        hash_map_(0, std::hash<std::uint32_t>(), std::equal_to<>(), characters_),
        queue_(characters_),
        text_(characters_) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchRounds; ++i) {
      const Draw& d = draws_.next();
      toggle(probe, map_, d);
      toggle(probe, hash_map_, d);
      queue(probe, d);
      write(probe, d);
    }
    return kBatchRounds * kOpsPerRound;
  }

  template <typename Probe>
  void drain(Probe&) {
    for (const auto& [key, value] : map_) check(value, key);
    for (const auto& [key, value] : hash_map_) check(value, key);
    // Assigns instead of calling clear(), which keeps the buckets and the text's memory.
    map_ = Map(std::less<>(), characters_);
    hash_map_ = HashMap(0, std::hash<std::uint32_t>(), std::equal_to<>(), characters_);
    queue_ = std::list<Draw, Allocator<Draw>>(characters_);
    text_ = String(characters_);
  }

 private:
  using Map = std::map<std::uint32_t, String, std::less<>,
                       Allocator<std::pair<const std::uint32_t, String>>>;
  using HashMap =
      std::unordered_map<std::uint32_t, String, std::hash<std::uint32_t>, std::equal_to<>,
                         Allocator<std::pair<const std::uint32_t, String>>>;

  static char letter_of(std::uint32_t key) noexcept { return static_cast<char>('!' + key % 94); }

  static void check(const String& value, std::uint32_t key) noexcept {
    for (const char c : value) {
      if (c != letter_of(key)) [[unlikely]] {
        report_corruption({nullptr, static_cast<std::uint32_t>(value.size()), 0});
      }
    }
  }

  template <typename Probe, typename Container>
  void toggle(Probe& probe, Container& container, const Draw& d) {
    probe.time(kAlloc, [&] {
      auto [at, is_new] = container.try_emplace(d.key, characters_);
      if (is_new) {
        at->second.assign(d.length, letter_of(d.key));
      } else {
        check(at->second, d.key);
        container.erase(at);
      }
    });
  }

  template <typename Probe>
  void queue(Probe& probe, const Draw& d) {
    probe.time(kAlloc, [&] {
      queue_.push_back({d.key, ~d.key});
      if (queue_.size() <= elements_) return;
      const Draw oldest = queue_.front();
      if (oldest.length != ~oldest.key) report_corruption({nullptr, sizeof oldest, 0});
      queue_.pop_front();
    });
  }

  template <typename Probe>
  void write(Probe& probe, const Draw& d) {
    probe.time(kAlloc, [&] {
      text_.append(d.length, letter_of(d.key));
      if (text_.size() < kTextEnds) return;
      if (text_.back() != letter_of(d.key)) {
        report_corruption({nullptr, static_cast<std::uint32_t>(text_.size()), 0});
      }
      text_ = String(characters_);
    });
  }

  std::size_t elements_;
  Drawn<Draw, kDrawn> draws_;
  Allocator<char> characters_;
  Map map_;
  HashMap hash_map_;
  std::list<Draw, Allocator<Draw>> queue_;
  String text_;
};

void containers(Cell& cell) {
  const std::size_t elements = cell.count("elements");
  const std::size_t threads = cell.lanes();
  Needs needs;
  needs.smallest_bytes = sizeof(void*);
  // The largest block: the hash map's buckets, doubled while it grows, or the text.
  needs.largest_bytes = std::max<std::size_t>(32 * elements, 2 * kTextEnds + kLongestString);
  needs.threads = cell.threads();
  needs.live_blocks = threads * (6 * elements + 16);
  needs.live_bytes =
      threads * (2 * elements * (80 + kLongestString) + elements * 48 + 3 * needs.largest_bytes);
  run_lanes<kFits>(cell, needs,
                   [&](auto& memory, Worker& worker) { return Lane(memory, worker, elements); });
}

const Registration<containers> kContainers({
    .name = "containers",
    .purpose = "map, unordered_map, list and string at work",
    .fits = kFits,
    .options = {Option::count("elements", 2000, 1, 10'000'000, "elements",
                              "approximate size of each container; each thread has its own")},
});

}  // namespace
}  // namespace strata::cell
