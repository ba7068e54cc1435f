#pragma once

#include <cstdint>
#include <vector>

#include "history/object_table.h"
#include "shared/trace/reader.h"

namespace strata::cli {

/// What is known of a live object, packed for the table. Birth times have steps of 8 ns; their 48
/// bits last for 26 days, and later births count as born then.
struct [[gnu::packed]] Life {
  std::uint64_t size_bytes : 48 = 0;
  std::uint64_t birth_steps : 48 = 0;
  std::uint32_t stack = 0;
  std::uint32_t thread : 20 = 0;  ///< that allocated it
  std::uint32_t chain : 12 = 0;   ///< number of reallocs that led to it; kMostChain stands for more

  /// The largest size recorded; no address space holds a larger object.
  static constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint64_t kStepNs = 8;
  static constexpr std::uint64_t kMostSteps = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint32_t kMostChain = (1 << 12) - 1;
};
static_assert(sizeof(Life) == 20, "10^8 objects that never end are explained within 2 GiB");
static_assert(trace::kMostThreads <= 1 << 20, "a thread's number fits");

/// The live objects after an event, in sum.
struct Moment {
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t objects = 0;

  bool operator==(const Moment&) const = default;
};

/// Events of a trace between two reports of how far it is read.
inline constexpr std::uint64_t kEventsPerReport = 1 << 20;

/// Reads a trace as the lives of objects: for each event, which objects begin and end.
/// \cost  Memory for the live objects: 20 bytes each at best; at worst as much for all objects
///        ever.
class History {
 public:
  explicit History(trace::Reader& reader) : reader_(reader) {}

  /// Advances to the next event.
  /// \returns  False at the end.
  /// \errors   trace::TraceError
  bool next();

  const trace::Event& event() const noexcept { return event_; }
  /// Whether an object begins with this event.
  bool is_birth() const noexcept { return event_.object != trace::kNoObject; }
  /// Whether a known object ends with this event.
  bool is_death() const noexcept { return event_.ended < trace::kUnknownObject; }
  /// The life that begins; requires is_birth().
  const Life& born() const { return born_; }
  /// The life that ends; requires is_death().
  const Life& ended() const noexcept { return ended_; }
  std::uint64_t lifetime_ns() const noexcept {
    return event_.time_ns - ended_.birth_steps * Life::kStepNs;
  }

  /// Whether the object that ends is the last one that its thread allocated, so a short-lived
  /// temporary.
  bool is_temporary() const noexcept { return is_temporary_; }

  /// The live objects after this event.
  const Moment& live() const noexcept { return live_; }
  /// The first moment with the maximum of live bytes.
  const Moment& peak() const noexcept { return peak_; }
  /// The number of the peak's event, from 1.
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
  std::vector<std::uint64_t> last_of_thread_;  ///< the object that each thread allocated last
  Moment live_;
  Moment peak_;
  std::uint64_t peak_event_ = 0;
};

}  // namespace strata::cli
