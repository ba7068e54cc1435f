#pragma once

#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "harness/own_memory.h"
#include "harness/stamp.h"
#include "harness/stopwatch.h"
#include "shared/replay_plan.h"

/// \file  Keeps the threads of a replay in an order that the trace allows.

namespace strata::cell {

/// Waits for something that another thread is about to do: spins first, then yields the processor.
/// The replay, not the allocator, causes longer waits, so their CPU time is counted.
class Patience {
 public:
  Patience() = default;
  ~Patience() {
    if (began_ns_ != 0) {
      cpu_ns_of_all_.fetch_add(clock_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns_,
                               std::memory_order_relaxed);
    }
  }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  void wait() noexcept {
    ++rounds_;
    if (rounds_ <= kSpins) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
      return;
    }
    if (began_ns_ == 0) began_ns_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (rounds_ <= kSpins + kYields) {
      ::sched_yield();
      return;
    }
    const timespec nap{0, 20'000};
    ::nanosleep(&nap, nullptr);
  }

  /// CPU time that all threads of the process spent in all but short waits.
  static std::uint64_t cpu_ns_of_all() noexcept {
    return cpu_ns_of_all_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr int kSpins = 100;  // about one cache line transfer between cores
  static constexpr int kYields = 10;
  static inline std::atomic<std::uint64_t> cpu_ns_of_all_{0};  // relaxed: a sum, read after join()
  int rounds_ = 0;
  std::uint64_t began_ns_ = 0;
};

/// A slot for objects that one thread allocates and another ends (shared/replay_plan.h).
struct SharedSlot {
  Block block;
  std::atomic<std::uint32_t> turn;

  /// acquire, with the release in pass_on(): what the last thread wrote to `block` and the object
  void await(std::uint32_t expected) const noexcept {
    for (Patience patience; turn.load(std::memory_order_acquire) != expected;) patience.wait();
  }
  void pass_on(std::uint32_t to) noexcept { turn.store(to, std::memory_order_release); }
};

/// Tracks which epochs are done.
class Epochs {
 public:
  explicit Epochs(std::size_t count) : threads_(count) {}

  /// Sets the number of threads with calls in the epoch; before the replay.
  void set_threads(std::size_t epoch, std::uint32_t threads) noexcept {
    threads_[epoch].store(threads, std::memory_order_relaxed);
  }

  void enter(std::uint64_t epoch) const noexcept {
    for (Patience patience;
         // acquire: with leave(), everything that threads did in those epochs
         epoch >= done_.load(std::memory_order_acquire) + plan::kEpochsAtOnce;) {
      patience.wait();
    }
  }

  void leave(std::uint64_t epoch) noexcept {
    // seq_cst, with the loads below: if two threads finish two epochs at once, one sees both
    if (threads_[epoch].fetch_sub(1, std::memory_order_seq_cst) != 1) return;
    std::uint64_t done = done_.load(std::memory_order_seq_cst);
    while (done < threads_.size() && threads_[done].load(std::memory_order_seq_cst) == 0) {
      // If another thread was faster, `done` is updated to its value.
      if (done_.compare_exchange_weak(done, done + 1, std::memory_order_seq_cst,
                                      std::memory_order_seq_cst)) {
        ++done;
      }
    }
  }

 private:
  OwnMemory<std::atomic<std::uint32_t>> threads_;
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace strata::cell
