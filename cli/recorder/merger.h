#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/clock.h"
#include "recorder/modules.h"
#include "recorder/object_map.h"
#include "recorder/records.h"
#include "recorder/stacks.h"
#include "recorder/thread_numbers.h"
#include "shared/trace/writer.h"

namespace strata::recorder {

/// Merges the records of all streams into one order of events and adds these to the trace, with the
/// stacks that they need and the names of threads. It knows which objects are live, so it turns a
/// freed address into the object that ended.
///
/// Order. Each drain() takes a time T, one clock skew ago, and merges the records of all streams up
/// to T by time. A free is recorded before it happens, and an allocation before its caller has the
/// pointer. So every record that a call up to T can depend on was published before, and is seen. An
/// allocation's time may be early, so an address may seem to be allocated before another thread
/// freed it. That free then follows within the skew, and the allocation is held back until it does.
/// \threads  One at a time: the writer thread.
class Merger {
  /// A stream that has a record, and that record's time.
  struct Head {
    std::uint64_t time;
    Stream* stream;
  };

 public:
  static constexpr std::size_t kBytes = StreamTable::kMostStreams * sizeof(Head);

  constexpr Merger(StreamTable& streams, StackTree& stacks, Clock& clock) noexcept
      : streams_(streams), stacks_(stacks), clock_(clock) {}
  Merger(const Merger&) = delete;
  Merger& operator=(const Merger&) = delete;

  /// Gives it kBytes, for ever, and the trace to fill. Call before drain().
  /// \param modules  Modules::kBytes of zeros; nullptr if no stacks are taken
  void use(char* memory, char* modules, trace::Writer& writer) noexcept;
  /// Time 0 of the trace is now.
  void begin() noexcept { origin_ = clock_.count(); }

  /// Adds all events that are old enough to have their place.
  /// \returns  The number of records taken.
  std::size_t drain() noexcept;
  /// Waits until everything recorded so far is old enough for drain(), even if held back.
  void settle() noexcept;
  /// Adds all stacks taken so far, and the files of their code.
  void write_stacks() noexcept;
  /// Adds the names of threads that have events and no name yet.
  void write_names() noexcept;
  /// Gives back the streams of ended threads. Asks the system, so that a thread need not report its
  /// end.
  void collect_ended_threads(std::uint64_t process) noexcept;
  std::uint64_t ns_since_beginning() const noexcept {
    return clock_.ns_at(clock_.count()) - clock_.ns_at(origin_);
  }

  /// Forgets all that belongs to the trace: a child of fork makes one of its own.
  void forget_all() noexcept;

 private:
  // Chosen: the record waited for may itself wait for a third stream, and so on.
  static constexpr unsigned kMostHolds = 64;

  struct Turn {
    std::size_t head;
    std::uint64_t until;  ///< the time of the next stream's record
  };

  std::size_t merge(std::uint64_t until) noexcept;
  std::size_t find_heads(std::uint64_t until) noexcept;
  Turn next_turn(std::size_t heads, std::uint64_t until) const noexcept;
  std::size_t take_run(Stream& stream, std::uint64_t until) noexcept;
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

  StreamTable& streams_;
  StackTree& stacks_;
  Clock& clock_;
  trace::Writer* writer_ = nullptr;
  Head* heads_ = nullptr;  ///< room for one per stream
  ObjectMap objects_;
  Modules modules_;
  std::uint32_t written_stacks_ = 0;
  std::uint32_t last_old_stack_ = 0;  ///< the StackTree::last_old() for which modules_ is valid
  ThreadNumbers thread_numbers_;
  std::uint64_t origin_ = 0;     ///< Clock::count() when the recording began
  std::uint64_t origin_ns_ = 0;  ///< the same by the clock's latest measurement
  std::uint64_t same_tick_ = 0;  ///< the last count that has the last event's tick
};

}  // namespace strata::recorder
