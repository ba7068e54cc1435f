#pragma once

#include <cstdint>
#include <vector>

#include "history/object_table.h"
#include "shared/trace/reader.h"

namespace strata::cli {

/// What is known of an object while it lives.
struct Life {
  std::uint64_t size_bytes = 0;
  std::uint64_t birth_ns = 0;
  std::uint32_t stack = 0;
  std::uint32_t thread : 20 = 0;  ///< that it was born in
  std::uint32_t chain : 12 = 0;   ///< reallocs that led to it; kMostChain stands for more
  static constexpr std::uint32_t kMostChain = (1 << 12) - 1;
};
static_assert(sizeof(Life) == 24, "a trace of 10^8 events is explained within 2 GiB");
static_assert(trace::kMostThreads <= 1 << 20, "a thread's number fits");

/// A trace as lives of objects: each event with what became of which object. What replay, explain
/// and advise read.
/// \cost  Memory for the live objects, 24 bytes each at best.
class History {
 public:
  explicit History(trace::Reader& reader) : reader_(reader) {}

  /// Goes to the next event.
  /// \returns  False at the end.
  /// \errors   trace::TraceError
  bool next();

  const trace::Event& event() const noexcept { return event_; }
  /// An object begins with this event.
  bool is_birth() const noexcept { return event_.object != trace::kNoObject; }
  /// A known object ends with it.
  bool is_death() const noexcept { return event_.ended < trace::kUnknownObject; }
  /// The life that begins, where is_birth().
  const Life& born() const { return born_; }
  /// The life that ends, where is_death().
  const Life& ended() const noexcept { return ended_; }
  std::uint64_t lifetime_ns() const noexcept { return event_.time_ns - ended_.birth_ns; }

  /// The object that ends is the one that its thread allocated last: it was wanted for a moment.
  bool is_temporary() const noexcept { return is_temporary_; }

  // After this event.
  std::uint64_t live_bytes() const noexcept { return live_bytes_; }
  std::uint64_t live_objects() const noexcept { return live_objects_; }
  std::uint64_t peak_bytes() const noexcept { return peak_bytes_; }
  /// The number of the event, from 1, after which live_bytes() was largest.
  std::uint64_t peak_event() const noexcept { return peak_event_; }

  const trace::Reader& reader() const noexcept { return reader_; }

 private:
  void end_object();
  void begin_object();

  trace::Reader& reader_;
  trace::Event event_;
  Life born_;
  Life ended_;
  bool is_temporary_ = false;
  ObjectTable<Life> lives_;
  std::vector<std::uint64_t> last_of_thread_;  ///< the object that it allocated last
  std::uint64_t live_bytes_ = 0;
  std::uint64_t live_objects_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t peak_event_ = 0;
};

}  // namespace strata::cli
