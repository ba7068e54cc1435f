#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "harness/own_memory.h"

namespace strata::cell {

/// Copies of this process that run side by side and meet at gates, which this process opens. They
/// share no memory but Owner::kCopies.
///
/// If a copy ends before its last gate, this process ends as the copy did. If this process ends, so
/// do the copies.
/// \threads  One of each process.
class Processes {
 public:
  /// \errors  std::bad_alloc.
  Processes() : gate_(1) {}
  /// Ends the copies that are still there.
  ~Processes() { end_all(); }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Starts `count` copies, each of which runs body(index) and ends. To be called once. An
  /// exception of a body is one of this call, in the copy.
  /// \errors  std::system_error.
  void start(int count, const std::function<void(int index)>& body);

  /// In a copy: waits for the next gate. Sleeps, so the copies that still run are undisturbed.
  void arrive_and_wait() noexcept;

  /// In this process: waits until all copies have arrived at the next gate.
  /// \cost  a look at the copies ten times a second
  void wait_for_all() noexcept;
  /// In this process, after wait_for_all(): lets the copies go on.
  void open_gate() noexcept;

 private:
  // Both are atomic and futexes of all copies. What was written before an arrival (release) is seen
  // after wait_for_all() (acquire), what before an opening after arrive_and_wait().
  struct Gate {
    std::uint32_t arrived;  // of all copies, at all gates so far
    std::uint32_t opened;   // gates
  };

  /// Returns if all copies are alive.
  void end_if_a_copy_did() noexcept;
  void end_all() noexcept;

  OwnMemory<Gate, Owner::kCopies> gate_;
  std::vector<pid_t> copies_;
  std::uint32_t passed_ = 0;  // gates, by this copy
};

}  // namespace strata::cell
