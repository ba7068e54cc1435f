#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "harness/cell.h"
#include "harness/probe.h"
#include "harness/stopwatch.h"
#include "replay/order.h"
#include "replay/stream.h"
#include "shared/replay_plan.h"

namespace strata::cell {

/// How much of each object is written.
enum class Touch {
  kNone,
  kWritten,  ///< what a program surely touches: both ends, and a word per OS page
  kAll,
};

/// The state that all threads of a replay share.
class Team {
 public:
  virtual void start(std::uint64_t stream) = 0;

  Team(std::size_t slot_count, std::size_t epoch_count, std::atomic<std::uint64_t>& live)
      : slots(slot_count), epochs(epoch_count), live_bytes(live) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  OwnMemory<SharedSlot> slots;
  Epochs epochs;
  std::atomic<std::uint64_t>& live_bytes;  ///< relaxed: a sum, sampled from outside
  std::uint64_t began_ns = 0;              ///< CLOCK_MONOTONIC

 protected:
  ~Team() = default;
};

inline constexpr LatencyKind kReallocLatency = 2;

/// Replays the calls of one thread of a trace.
/// \threads  One.
template <Touch kTouch, typename Route>
class Player {
 public:
  /// \param interval  one call in this many is timed, on average; 0: none
  Player(Worker& worker, Team& team, Route& route, int fd, const plan::Stream& stream,
         double interval)
      : worker_(worker),
        team_(team),
        route_(route),
        probe_(worker),
        stream_(fd, stream),
        slots_(stream.slots),
        interval_(interval),
        until_timed_(interval == 0 ? kNever : static_cast<std::uint64_t>(interval)) {}

  void play() {
    while (!stream_.is_at_end()) {
      prefetch_slot_of(stream_.soon());
      const std::uint64_t word = stream_.next();
      switch (plan::kind_of(word)) {
        case plan::Kind::kFree:
        case plan::Kind::kDelete:
          end_object(word);
          break;
        case plan::Kind::kRealloc:
          resize(word);
          break;
        case plan::Kind::kTime:
          wait_until(plan::payload_of(word));
          break;
        case plan::Kind::kStart:
          team_.start(plan::payload_of(word));
          break;
        case plan::Kind::kEpoch:
          enter(plan::payload_of(word));
          break;
        case plan::Kind::kMove:
          move_over(word);
          break;
        case plan::Kind::kNone:
          break;
        default:
          begin_object(word);
      }
    }
    if (is_in_epoch_) team_.epochs.leave(epoch_);
    tell_live();
  }

  /// Calls visit(block) for each object in this thread's slots that is live at the trace's end.
  template <typename Visit>
  void for_each_left(Visit visit) {
    for (Block& block : slots_) {
      if (block) visit(block);
    }
  }
  /// Frees these objects.
  void drain(Block& block) {
    check(block);
    const bool is_routed = (block.stamp & kRoutedStamp) != 0;
    void* const address = take(block);
    is_routed ? route_.deallocate(address, 0) : std::free(address);
    tell_live();
  }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::uint32_t kRoutedStamp = 1u << 31;
  static constexpr std::size_t kWord = sizeof(std::uint64_t);

  /// Prefetches the replay's own table, because its cache misses are not the program's. A word that
  /// is not a call gives an arbitrary address, which is harmless.
  void prefetch_slot_of(std::uint64_t word) noexcept {
    const auto slots = reinterpret_cast<std::uintptr_t>(slots_.data());
    __builtin_prefetch(reinterpret_cast<const void*>(  // NOLINT: only looked for in the cache
                           slots + plan::slot_of(word) * sizeof(Block)),
                       1);
  }

  /// A call's word and the words that belong to it.
  struct Call {
    plan::Kind kind;
    bool is_shared;
    bool is_routed;
    std::size_t slot;
    std::uint64_t bytes;
    std::uint32_t turn = 0;
    std::size_t alignment = 0;
  };

  Call read(std::uint64_t word) {
    Call call{plan::kind_of(word), (word & plan::kShared) != 0, (word & plan::kRouted) != 0,
              plan::slot_of(word), word >> plan::kBytesShift};
    if ((word & plan::kWide) != 0) call.bytes = stream_.next();
    if ((word & (plan::kShared | plan::kAligned)) != 0) {
      const std::uint64_t more = stream_.next();
      call.turn = static_cast<std::uint32_t>(more);
      if ((word & plan::kAligned) != 0) call.alignment = std::size_t{1} << (more >> 32 & 63);
    }
    return call;
  }

  /// Waits for the object and removes it from its slot.
  Block fetch(const Call& call) {
    if (!call.is_shared) return std::exchange(slots_[call.slot], Block());
    SharedSlot& slot = team_.slots[call.slot];
    slot.await(call.turn + 1);
    const Block block = std::exchange(slot.block, Block());
    slot.pass_on(call.turn + 2);
    return block;
  }

  void place(const Call& call, const Block& block) {
    if (!call.is_shared) {
      slots_[call.slot] = block;
      return;
    }
    SharedSlot& slot = team_.slots[call.slot];
    slot.block = block;
    slot.pass_on(call.turn + 1);
  }

  void begin_object(std::uint64_t word) {
    const Call call = read(word);
    if (call.is_shared) team_.slots[call.slot].await(call.turn);
    void* const address = timed(kAlloc, [&] { return allocate(call); });
    if (call.kind == plan::Kind::kCalloc && call.alignment == 0) check_zero(address, call.bytes);
    place(call, adopt(address, call.bytes, call.is_routed));
  }

  void end_object(std::uint64_t word) {
    const Call call = read(word);
    Block block = fetch(call);
    if (!block) return;
    check(block);
    void* const address = take(block);
    timed(kFree, [&] { deallocate(call, address); });
  }

  void resize(std::uint64_t word) {
    const Call call = read(word);
    const std::uint64_t old_word = stream_.next();
    Block old;
    if (plan::kind_of(old_word) != plan::Kind::kNone) old = fetch(read(old_word));
    if (old) check(old);
    const std::size_t kept = old ? std::min<std::size_t>(old.bytes, call.bytes) : 0;
    const std::uint32_t stamp = old.stamp;
    if (call.is_shared) team_.slots[call.slot].await(call.turn);
    void* const before = old ? take(old) : nullptr;
    // realloc(p, 0) frees under some allocators, but the trace has an object here.
    const std::size_t bytes = std::max<std::size_t>(call.bytes, 1);
    void* const address = timed(kReallocLatency, [&] { return std::realloc(before, bytes); });
    if (address == nullptr) std::free(before);
    check_kept(address, kept, stamp);
    place(call, adopt(address, call.bytes, false));
  }

  /// Copies an object, as a vector does when it grows.
  void move_over(std::uint64_t word) {
    const Block& from = slots_[plan::slot_of(word)];
    const Block& to = slots_[plan::slot_of(stream_.next())];
    if (!from || !to) return;
    std::memcpy(to.address, from.address, std::min(from.bytes, to.bytes));
    if constexpr (kTouch != Touch::kNone) write_stamp(to);
  }

  void* allocate(const Call& call) {
    if (call.is_routed) return allocate_routed(call);
    if (call.alignment != 0) return allocate_aligned(call);
    switch (call.kind) {
      case plan::Kind::kCalloc:
        return std::calloc(1, call.bytes);
      case plan::Kind::kNew:
        return operator_new(call.bytes);
      default:
        return std::malloc(call.bytes);
    }
  }

  /// Zeroes the memory for calloc, because the toolkit's allocators do not.
  void* allocate_routed(const Call& call) {
    void* const address = route_.allocate(call.bytes);
    if (call.kind == plan::Kind::kCalloc && address != nullptr) {
      std::memset(address, 0, call.bytes);
    }
    return address;
  }

  static void* allocate_aligned(const Call& call) {
    void* address = nullptr;
    const std::size_t alignment = std::max(call.alignment, sizeof(void*));
    return ::posix_memalign(&address, alignment, call.bytes) == 0 ? address : nullptr;
  }

  static void* operator_new(std::size_t bytes) {
    try {
      return ::operator new(bytes);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  void deallocate(const Call& call, void* address) {
    if (call.is_routed) {
      route_.deallocate(address, 0);
    } else if (call.kind == plan::Kind::kDelete) {
      ::operator delete(address);
    } else {
      std::free(address);
    }
  }

  Block adopt(void* address, std::uint64_t bytes, bool is_routed) {
    if (address == nullptr && bytes == 0) return {};  // malloc(0) may return nullptr
    const auto stamped = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, kLongest));
    if (address == nullptr) {
      ++worker_.failed_allocations;
      return {};
    }
    ++worker_.allocations;
    add_live(stamped);
    std::uint32_t stamp = worker_.next_stamp(kTouch == Touch::kAll) & ~kRoutedStamp;
    if (is_routed) stamp |= kRoutedStamp;
    const Block block{static_cast<std::byte*>(address), stamped, stamp};
    if constexpr (kTouch != Touch::kNone) write_stamp(block);
    return block;
  }

  void check(const Block& block) const noexcept {
    if constexpr (kTouch != Touch::kNone) probe_.check(block);
  }

  void* take(Block& block) {
    ++worker_.frees;
    add_live(-std::int64_t{block.bytes});
    return std::exchange(block, Block()).address;
  }

  void add_live(std::int64_t bytes) noexcept {
    constexpr std::int64_t kStep = 16 * 1024;  // rare enough to cost nothing
    live_bytes_ += bytes;
    if (live_bytes_ >= kStep || live_bytes_ <= -kStep) tell_live();
  }
  void tell_live() noexcept {
    team_.live_bytes.fetch_add(static_cast<std::uint64_t>(std::exchange(live_bytes_, 0)),
                               std::memory_order_relaxed);
  }

  static void check_zero(const void* address, std::uint64_t bytes) {
    if (kTouch == Touch::kNone || address == nullptr || bytes < kWord) return;
    std::uint64_t ends[2];
    std::memcpy(&ends[0], address, kWord);
    std::memcpy(&ends[1], static_cast<const std::byte*>(address) + bytes - kWord, kWord);
    if ((ends[0] | ends[1]) != 0) fail_wrong_work("calloc gave memory that is not zero");
  }

  static void check_kept(const void* address, std::size_t kept, std::uint32_t stamp) {
    if (kTouch == Touch::kNone || address == nullptr || kept < kWord) return;
    const std::uint64_t first = detail::word_of(stamp, 0);
    if (std::memcmp(address, &first, kWord) != 0) {
      fail_wrong_work("realloc did not keep the object's contents");
    }
  }

  void enter(std::uint64_t epoch) {
    if (is_in_epoch_) team_.epochs.leave(epoch_);
    team_.epochs.enter(epoch);
    epoch_ = epoch;
    is_in_epoch_ = true;
  }

  /// Does not sleep for times too short for the kernel's timers.
  void wait_until(std::uint64_t ns) const noexcept {
    constexpr std::uint64_t kShortestNs = 60'000;
    const std::uint64_t due = team_.began_ns + ns;
    if (clock_ns(CLOCK_MONOTONIC) + kShortestNs >= due) return;
    const timespec until{static_cast<time_t>(due / 1'000'000'000),
                         static_cast<long>(due % 1'000'000'000)};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }

  template <typename Operation>
  decltype(auto) timed(LatencyKind kind, Operation&& operation) {
    if (--until_timed_ != 0) [[likely]]
      return operation();
    // Varies the interval, so that sampling cannot lock on to a pattern of the program.
    random_ = random_ * 6364136223846793005 + 1442695040888963407;
    due_ += interval_;
    const auto whole = static_cast<std::uint64_t>(due_);
    due_ -= static_cast<double>(whole);
    until_timed_ = 1 + (random_ >> 33) % (2 * whole - 1);
    return Probe<Depth::kTimed>(worker_).time(kind, operation);
  }

  static constexpr std::uint64_t kLongest = 0xffffffff;  ///< bytes that a stamp covers

  Worker& worker_;
  Team& team_;
  Route& route_;
  Probe<Depth::kPlain> probe_;
  PlanStream stream_;
  OwnMemory<Block> slots_;
  double interval_;
  double due_ = 0;  ///< the fraction of a call carried over from earlier intervals
  std::uint64_t until_timed_;
  std::uint64_t random_ = 1;
  std::int64_t live_bytes_ = 0;  ///< not yet added to the team's
  std::uint64_t epoch_ = 0;
  bool is_in_epoch_ = false;
};

}  // namespace strata::cell
