#pragma once

#include <atomic>
#include <cstdint>

#include "recorder/clock.h"
#include "recorder/merger.h"
#include "recorder/records.h"
#include "recorder/settings.h"
#include "recorder/stacks.h"
#include "recorder/trace_file.h"
#include "recorder/writer_thread.h"

namespace strata::recorder {

/// The recording of a process. Threads record their calls in streams (calls.h) while it is on; a
/// writer thread lets a Merger turn the streams into the events of a TraceFile. This class decides
/// when the recording begins and ends, gives threads their streams, and has the memory.
class Recording {
 public:
  enum class Mode : std::uint32_t { kOff, kOn, kNotStarted };

  /// acquire pairs with the release that turns it on: who records sees what the start has written.
  bool is_on() const noexcept { return mode_.load(std::memory_order_acquire) == Mode::kOn; }
  Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }

  /// Opens the file and starts the writer; call once. `allocator` is the allocator's path, for the
  /// trace.
  void start(const char* allocator) noexcept;
  /// Returns when everything recorded so far is in the file; at the program's end, with the last
  /// block.
  void flush() noexcept { ask(WriterThread::kFlush); }
  void end() noexcept { ask(WriterThread::kEnd); }
  /// Returns when the modules of all stacks taken so far are known.
  void name_stacks() noexcept { ask(WriterThread::kNameStacks); }
  /// Starts the recording, or stops it.
  /// \threads  Any; also from signal handlers.
  void toggle() noexcept;

  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  /// The child starts a new recording with its next call. Earlier streams belong to the parent.
  void after_fork_in_child() noexcept;

  const Settings& settings() const noexcept { return settings_; }
  const Clock& clock() const noexcept { return clock_; }
  StackTree& stacks() noexcept { return stacks_; }
  bool had_several_streams() const noexcept { return streams_.had_several(); }
  /// \returns  nullptr if none is available. May wait.
  Stream* take_stream() noexcept;
  /// \returns  False if the call must be dropped. May wait.
  bool make_room(Stream& stream) noexcept;

 private:
  bool take_memory() noexcept;
  void ask(WriterThread::Request request) noexcept;
  bool must_drop() noexcept;
  void wait_for_return(std::uint32_t seen) noexcept;
  /// Detects a child that was copied without fork handlers: it has this object but no writer, and
  /// its locks may be held for ever. It is not recorded. A child of vfork counts as its parent.
  /// \returns  Whether this process is such a child.
  bool leave_stray_copy() noexcept;

  // Called by the writer thread; turn_on() also before it starts.
  static std::uint64_t do_round(void* self, std::uint32_t requests) noexcept;
  void work(std::uint32_t requests) noexcept;
  bool is_due(std::uint32_t toggles) const noexcept;
  bool is_time_over() const noexcept;
  void turn_on() noexcept;
  void finish(const char* reason) noexcept;
  void report_drops() noexcept;
  std::uint64_t sleep_ns() const noexcept;

  // Written at the start, before the mode is published.
  Settings settings_;
  Clock clock_;
  std::uint64_t process_ = 0;
  /// 1, and 0 in copies of the memory; nullptr: nobody knows
  std::uint32_t* is_process_ = nullptr;
  bool has_fork_handlers_ = false;

  std::atomic<Mode> mode_{Mode::kNotStarted};
  std::atomic<bool> is_starting_{false};
  std::atomic<std::uint32_t> toggles_{0};

  StreamTable streams_;
  StackTree stacks_;
  WriterThread thread_;
  // Far from the mode, which each call reads.
  std::atomic<std::uint64_t> dropped_{0};    ///< relaxed: calls without a record
  std::atomic<bool> has_said_drops_{false};  ///< relaxed: once, and nobody waits for it

  // Used by the writer thread only, once it runs.
  TraceFile file_;
  Merger merger_{streams_, stacks_, clock_};
  std::uint64_t started_ns_ = 0;
  std::uint64_t begun_ns_ = 0;
  std::uint64_t flushed_ns_ = 0;
  std::uint64_t reported_drops_ = 0;
  bool has_begun_ = false;
};

extern constinit Recording g_recording;

}  // namespace strata::recorder
