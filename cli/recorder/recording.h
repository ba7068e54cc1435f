#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "recorder/clock.h"
#include "recorder/modules.h"
#include "recorder/object_map.h"
#include "recorder/records.h"
#include "recorder/settings.h"
#include "recorder/stacks.h"
#include "recorder/text.h"
#include "recorder/thread_numbers.h"
#include "shared/trace/writer.h"

namespace strata::recorder {

/// The recording of a process. Threads record their calls in streams (calls.h); a hidden writer
/// thread merges the streams into a trace.
///
/// Order. In each round the writer takes a time T, one clock skew ago, and merges the records of
/// all streams up to T by time. A free is recorded before it happens, and an allocation before its
/// caller has the pointer. So every record that a call up to T can depend on was published before,
/// and the writer sees it. An allocation's time may be early, so an address may seem to be
/// allocated before another thread freed it. That free then follows within the skew, and the
/// allocation is held back until it does.
class Recording {
 public:
  enum class Mode : std::uint32_t { kOff, kOn, kNotStarted };

  bool is_on() const noexcept { return mode_.load(std::memory_order_relaxed) == Mode::kOn; }
  Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }

  /// Opens the file and starts the writer; call once. `allocator` is the allocator's path, for the
  /// trace.
  void start(const char* allocator) noexcept;
  /// Returns when everything recorded so far is in the file; at the program's end, with the last
  /// block.
  void flush() noexcept { ask(kFlush); }
  void end() noexcept { ask(kEnd); }
  /// Returns when the modules of all stacks taken so far are known.
  void name_stacks() noexcept { ask(kNameStacks); }
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
  /// \returns  False if the calls must be dropped. May wait.
  bool make_room(Stream& stream) noexcept;

 private:
  // Chosen: the record waited for may itself wait for a third stream, and so on.
  static constexpr unsigned kMostHolds = 64;
  enum Request : std::uint32_t { kNone = 0, kFlush = 1, kEnd = 2, kNameStacks = 4 };

  static int run_writer(void* self) noexcept;
  static bool write_bytes(void* self, const void* bytes, std::size_t count) noexcept;

  bool take_memory() noexcept;
  bool open_file() noexcept;
  bool open_writer(const char* allocator) noexcept;
  void tell_process(const char* allocator) noexcept;
  void ask(Request request) noexcept;
  void ring() noexcept;
  void wait_for_return(std::uint32_t seen) noexcept;
  bool must_drop() noexcept;
  /// Detects a child that was copied without fork handlers: it has this object but no writer, and
  /// its locks may be held for ever. It is not recorded. A child of vfork counts as its parent.
  /// \returns  Whether this process is such a child.
  bool leave_stray_copy() noexcept;

  // Called by the writer only.
  void begin_round() noexcept;
  bool work() noexcept;
  void turn_on() noexcept;
  void settle() noexcept;
  bool is_time_over() const noexcept;
  std::uint64_t sleep_ns() const noexcept;
  void finish(const char* reason) noexcept;
  void give_up() noexcept;
  std::size_t drain() noexcept;
  /// A stream that has a record, and that record's time.
  struct Head {
    std::uint64_t time;
    Stream* stream;
  };
  struct Turn {
    std::size_t head;
    std::uint64_t until;  ///< the time of the next stream's record
  };
  std::size_t merge(std::uint64_t until) noexcept;
  std::size_t find_heads(std::uint64_t until) noexcept;
  Turn next_turn(std::size_t heads, std::uint64_t until) const noexcept;
  std::size_t take_run(Stream& stream, std::uint64_t until) noexcept;
  void write_stacks() noexcept;
  void write_names() noexcept;
  void report_drops() noexcept;
  void collect_ended_threads() noexcept;
  const Record* head(Stream& stream) noexcept;
  unsigned take(Stream& stream, const Record& record) noexcept;
  unsigned take_slowly(Stream& stream, const Record& record) noexcept;
  bool take_beginning(Stream& stream, const Record& record, std::uint64_t size) noexcept;
  bool take_end(Stream& stream, const Record& record) noexcept;
  bool take_realloc(Stream& stream, const Record& record, std::uint64_t size) noexcept;
  void end_realloc(Stream& stream, trace::Event& event, const Record& record) noexcept;
  std::uint32_t number_of(Stream& stream) noexcept;
  std::uint64_t end_object(std::uint64_t address) noexcept;
  bool begin_object(Stream& stream, trace::Event& event, const Record& record) noexcept;
  bool lose_object(Stream& stream, const Record& record, std::uint64_t before) noexcept;
  void add(trace::Event& event, std::uint64_t count) noexcept;
  bool hold_back(Stream& stream, const Record& record) noexcept;
  std::uint64_t time_of_end(Stream& stream, std::uint64_t address, std::uint64_t until) noexcept;

  // Written at the start, before the mode is published.
  Settings settings_;
  Clock clock_;
  std::uint64_t process_ = 0;
  /// 1, and 0 in copies of the memory; nullptr: nobody knows
  std::uint32_t* is_process_ = nullptr;
  int file_ = -1;  ///< in the writer's own file table
  bool has_fork_handlers_ = false;

  std::atomic<Mode> mode_{Mode::kNotStarted};
  std::atomic<bool> is_starting_{false};
  std::atomic<bool> has_writer_{false};  ///< release: what was requested is done
  std::atomic<std::uint32_t> bell_{0};   ///< changes when there is work
  std::atomic<bool> is_writer_asleep_{false};
  std::atomic<std::uint32_t> requests_{kNone};  ///< pending requests, one bit each
  std::atomic<std::uint32_t> asked_{0};         ///< release: requests so far, each bit set before
  std::atomic<std::uint32_t> answered_{0};      ///< release: the number of requests that are done
  std::atomic<std::uint32_t> toggles_{0};
  std::atomic<std::uint64_t> dropped_{0};    ///< relaxed: calls dropped by threads without a stream
  std::atomic<bool> has_said_drops_{false};  ///< relaxed: once, and nobody waits for it
  SpinLock round_;                           ///< held during a round of the writer; fork takes it
  std::atomic<std::uint32_t> forks_waiting_{0};  ///< relaxed: round_ orders the rest

  StreamTable streams_;
  StackTree stacks_;

  // Used by the writer only.
  trace::Writer* writer_ = nullptr;
  int error_ = 0;
  int process_stat_ = -1;  ///< for end_of_others()
  Text file_name_;
  Head* heads_ = nullptr;  ///< room for one per stream
  ObjectMap objects_;
  Modules modules_;
  std::uint32_t written_stacks_ = 0;
  std::uint32_t last_old_stack_ = 0;  ///< the StackTree::last_old() for which modules_ is valid
  ThreadNumbers thread_numbers_;
  std::uint64_t origin_ = 0;     ///< Clock::count() when the recording began
  std::uint64_t origin_ns_ = 0;  ///< the same by the clock's latest measurement
  std::uint64_t same_tick_ = 0;  ///< the last count that has the last event's tick
  std::uint64_t started_ns_ = 0;
  std::uint64_t begun_ns_ = 0;
  std::uint64_t flushed_ns_ = 0;
  std::uint64_t reported_drops_ = 0;
  bool has_begun_ = false;
};

extern constinit Recording g_recording;

}  // namespace strata::recorder
