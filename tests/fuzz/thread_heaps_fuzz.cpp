// ThreadHeaps with any options. Two threads call by turns; the second one ends now and then, and
// leaves its heap to its successor.
#include <strata/thread_heaps.hpp>

#include <functional>
#include <future>
#include <optional>
#include <thread>

#include "shelf.h"

namespace {

using namespace strata;
using fuzz::require;

/// A thread that does one thing at a time, for whoever asks it to.
class OtherThread {
 public:
  ~OtherThread() { end(); }
  void end() {
    if (!thread_.joinable()) return;
    ask(nullptr);
    thread_.join();
  }
  template <typename Call>
  auto run(Call call) {
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    std::packaged_task<decltype(call())()> task(std::move(call));
    auto result = task.get_future();
    ask([&task] { task(); });
    return result.get();
  }

 private:
  void ask(std::function<void()> what) {
    what_ = std::move(what);
    is_asked_.test_and_set();
    is_asked_.notify_one();
    is_asked_.wait(true);
  }
  void work() {
    for (bool goes_on = true; goes_on;) {
      is_asked_.wait(false);
      goes_on = static_cast<bool>(what_);
      if (goes_on) what_();
      is_asked_.clear();
      is_asked_.notify_one();
    }
  }

  std::function<void()> what_;
  std::atomic_flag is_asked_;
  std::thread thread_;
};

/// Every byte of a block is written. So larger arenas are made, too, but stay empty.
constexpr std::size_t kLargestFilledArena = std::size_t{1} << 24;

struct Shelf {
  ThreadHeaps heaps;
  OtherThread other;
  bool is_other = false;

  template <typename Call>
  auto run(Call call) {
    return is_other ? other.run(std::move(call)) : call();
  }

  void allocate(fuzz::Choices& choices, fuzz::Blocks& model) {
    const bool is_aligned = choices.byte() % 8 == 0;
    const std::size_t bytes = choices.size(1 << 18);
    const std::size_t alignment = is_aligned ? choices.alignment(17) : 16;
    void* const p = run([&] { return heaps.allocate(bytes, alignment); });
    if (p == nullptr) return;
    require(heaps.owns(p), "the heaps own their blocks");
    model.add(p, bytes, heaps.usable_size(p), alignment);
  }
  void deallocate(const Block& block) {
    run([&] { return heaps.deallocate(block.address), 0; });
  }
  void step(fuzz::Choices& choices, fuzz::Blocks& model) {
    switch (choices.below(8)) {
      case 0:
        return other.end();
      case 1:
        run([&] { return heaps.reclaim_now(); });
        return;
      case 2: {
        heaps.check_invariants();
        const auto now = heaps.statistics();
        require(now.allocations - now.frees == model.count(), "live blocks are counted");
        return;
      }
      case 3: {
        ThreadHeaps moved = std::move(heaps);
        require(heaps.allocate(1) == nullptr, "moved heaps are empty");
        heaps = std::move(moved);
        return;
      }
      case 4:
        return reallocate(choices, model);
      default:
        is_other = !is_other;
    }
  }
  void reallocate(fuzz::Choices& choices, fuzz::Blocks& model) {
    if (model.is_empty()) return;
    const std::size_t bytes = choices.size(1 << 18);
    model.reallocate(
        choices, bytes, [&](void* p) { return run([&] { return heaps.reallocate(p, bytes); }); },
        [&](void* p) { return heaps.usable_size(p); });
  }
};

}  // namespace

STRATA_FUZZ(choices) {
  ThreadHeaps::Options options;
  options.arena_bytes = choices.flag() ? choices.size(1 << 22) : std::size_t{1} << 20;
  if (choices.flag()) options.thread_budget_bytes = choices.size(1 << 22);
  if (choices.flag()) options.total_budget_bytes = choices.size(1 << 23);
  if (choices.flag()) options.cached_bytes = choices.size(1 << 20);
  const char* reason = nullptr;
  auto made = ThreadHeaps::try_create(options, &reason);
  require(made.has_value() == (reason == nullptr), "no heaps have a reason");
  if (!made || options.arena_bytes > kLargestFilledArena) return;
  Shelf shelf{*std::move(made), {}, false};
  fuzz::exercise(choices, shelf);
}
