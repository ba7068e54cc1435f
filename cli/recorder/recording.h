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

/// A process's recording: threads note their calls (calls.h), a hidden thread of ours makes a trace
/// of them.
///
/// The order. Every so often the writer takes a time T, a skew of the clock ago, and merges what
/// all streams hold up to T by time. A free is noted before it happens and an allocation before its
/// caller has it: so whatever could have been known to a call at or before T was published, and is
/// seen. An allocation's time may be early, so that an address seems to be given out before another
/// thread freed it. Then that free comes within the skew, and the allocation waits for it.
class Recording {
 public:
  enum class Mode : std::uint32_t { kOff, kOn, kNotStarted };

  bool is_on() const noexcept { return mode_.load(std::memory_order_relaxed) == Mode::kOn; }
  Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }

  /// Opens the file and starts the writer; once. `allocator` is a path to be told.
  void start(const char* allocator) noexcept;
  /// All that was noted so far is in the file when it returns; at the program's end the last block
  /// is, too.
  void flush() noexcept { ask(kFlush); }
  void end() noexcept { ask(kEnd); }
  /// The files that the stacks taken so far lie in are known when it returns.
  void name_stacks() noexcept { ask(kNameStacks); }
  /// Begins the recording, or ends it.
  /// \threads  Any, in signal handlers, too.
  void toggle() noexcept;

  void before_fork() noexcept;
  void after_fork_in_parent() noexcept;
  /// The child's recording begins with its next call; streams from before belong to the parent.
  void after_fork_in_child() noexcept;

  const Settings& settings() const noexcept { return settings_; }
  const Clock& clock() const noexcept { return clock_; }
  StackTree& stacks() noexcept { return stacks_; }
  bool had_several_streams() const noexcept { return streams_.had_several(); }
  /// \returns  nullptr if there is none now. May wait.
  Stream* take_stream() noexcept;
  /// \returns  False if the calls are to be dropped. May wait.
  bool make_room(Stream& stream) noexcept;

 private:
  // Chosen: that other record may have to wait for a third stream's, and so on.
  static constexpr unsigned kMostHolds = 64;
  enum Request : std::uint32_t { kNone = 0, kFlush = 1, kEnd = 2, kNameStacks = 4 };

  static int run_writer(void* self) noexcept;
  static bool write_bytes(void* self, const void* bytes, std::size_t count) noexcept;

  bool open_file() noexcept;
  bool open_writer(const char* allocator) noexcept;
  void tell_process(const char* allocator) noexcept;
  void ask(Request request) noexcept;
  void ring() noexcept;
  void wait_for_return(std::uint32_t seen) noexcept;
  /// In a child that has a copy of all this, no writer, and locks that nobody gives back, because
  /// no handler of fork() ran: it is not recorded. A child of vfork is part of its parent.
  /// \returns  Whether this is one.
  bool leave_stray_copy() noexcept;

  // The writer's thread.
  void begin_round() noexcept;
  bool work() noexcept;
  void turn_on() noexcept;
  void settle() noexcept;
  bool is_time_over() const noexcept;
  std::uint64_t sleep_ns() const noexcept;
  void finish(const char* reason) noexcept;
  void give_up() noexcept;
  std::size_t drain() noexcept;
  /// A stream that has a record, and when its turn is.
  struct Head {
    std::uint64_t time;
    Stream* stream;
  };
  struct Turn {
    std::size_t head;
    std::uint64_t until;  ///< when the next stream's turn is
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

  // Written at the start, before the mode says that it has happened.
  Settings settings_;
  Clock clock_;
  std::uint64_t process_ = 0;
  std::uint32_t* is_process_ =
      nullptr;     ///< 1, and 0 in copies of the memory; nullptr: nobody knows
  int file_ = -1;  ///< of the writer's files, which are not the program's
  bool has_fork_handlers_ = false;

  std::atomic<Mode> mode_{Mode::kNotStarted};
  std::atomic<bool> is_starting_{false};
  std::atomic<bool> has_writer_{false};  ///< release: what was asked for is done
  std::atomic<std::uint32_t> bell_{0};   ///< changes when there is something to do
  std::atomic<bool> is_writer_asleep_{false};
  std::atomic<std::uint32_t> requests_{kNone};  ///< what was asked for, one bit each
  std::atomic<std::uint32_t> asked_{0};         ///< release: how often; the bit was set before
  std::atomic<std::uint32_t> answered_{0};      ///< release: which of them is done
  std::atomic<std::uint32_t> toggles_{0};
  std::atomic<std::uint64_t> dropped_{0};        ///< relaxed: by those who have no stream
  SpinLock round_;                               ///< held while the writer works; for fork
  std::atomic<std::uint32_t> forks_waiting_{0};  ///< relaxed: for the lock, which orders all else

  StreamTable streams_;
  StackTree stacks_;

  // The writer's.
  trace::Writer* writer_ = nullptr;
  int error_ = 0;
  int process_stat_ = -1;  ///< for end_of_others()
  Text file_name_;
  Head* heads_ = nullptr;  ///< room for one of each stream
  ObjectMap objects_;
  Modules modules_;
  std::uint32_t written_stacks_ = 0;
  std::uint32_t last_old_stack_ = 0;  ///< StackTree::last_old() that modules_ is from after
  ThreadNumbers thread_numbers_;
  std::uint64_t origin_ = 0;     ///< Clock::count() when the recording began
  std::uint64_t origin_ns_ = 0;  ///< what it is by the clock's last measure
  std::uint64_t same_tick_ = 0;  ///< up to this count it is still the last event's tick
  std::uint64_t started_ns_ = 0;
  std::uint64_t begun_ns_ = 0;
  std::uint64_t flushed_ns_ = 0;
  std::uint64_t reported_drops_ = 0;
  bool has_begun_ = false;
};

extern constinit Recording g_recording;

}  // namespace strata::recorder
