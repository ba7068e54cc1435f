#pragma once

#include <sys/types.h>

#include <vector>

#include "harness/own_memory.h"

namespace strata::cell {

/// Copies of this process that run in parallel and meet at gates, which this process opens. They
/// share only memory of Owner::kCopies.
///
/// If a copy ends before its last gate, this process ends the same way. If this process ends, so do
/// the copies.
class Processes {
 public:
  /// \errors  std::bad_alloc.
  Processes() : gate_(1) {}
  /// Ends the copies that still run.
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Starts `count` copies, each of which runs body(index) and ends.
  /// \pre     called once, while there are no other threads
  /// \errors  std::system_error.
  template <typename Body>
  void start(int count, Body body) {
    copies_.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      if (!is_copy_after_fork()) continue;
      body(i);
      end_copy();
    }
  }

  /// In a copy: waits for the next gate.
  void arrive_and_wait() noexcept;

  /// Waits until all copies have arrived at the next gate.
  void wait_for_all() noexcept;
  /// Lets the copies go on.
  void open_gate() noexcept;

 private:
  struct Gate {
    int arrived;  // summed over all gates; atomic, as is `opened`
    int opened;   // gates
  };

  bool is_copy_after_fork();
  [[noreturn]] static void end_copy() noexcept;
  /// Ends this process as a copy did; does nothing while all copies live.
  void end_with_a_copy() noexcept;

  OwnMemory<Gate, Owner::kCopies> gate_;
  std::vector<pid_t> copies_;
  int passed_ = 0;  // gates, by this copy
};

}  // namespace strata::cell
