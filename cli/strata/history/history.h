#pragma once

#include <algorithm>
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
  std::uint32_t thread = 0;  ///< that it was born in
  std::uint32_t chain = 0;   ///< reallocs that led to it; kMostChain stands for more

  /// Larger objects count as this large: no address space holds one.
  static constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 48) - 1;
  static constexpr std::uint32_t kMostChain = (1 << 12) - 1;
};

/// A Life as the table keeps it. Births are kept in steps of 8 ns; 48 bits last for 26 days, and
/// what is born later counts as born then.
class [[gnu::packed]] KeptLife {
 public:
  KeptLife() = default;
  explicit KeptLife(const Life& life)
      : size_bytes_(life.size_bytes & Life::kMostBytes),
        birth_steps_(std::min(life.birth_ns / kStepNs, kMostSteps) & kMostSteps),
        stack_(life.stack),
        thread_(life.thread & ((1u << 20) - 1)),
        chain_(life.chain & Life::kMostChain) {}

  Life life() const { return {size_bytes_, birth_steps_ * kStepNs, stack_, thread_, chain_}; }

 private:
  static constexpr std::uint64_t kStepNs = 8;
  static constexpr std::uint64_t kMostSteps = (std::uint64_t{1} << 48) - 1;

  std::uint64_t size_bytes_ : 48 = 0;
  std::uint64_t birth_steps_ : 48 = 0;
  std::uint32_t stack_ = 0;
  std::uint32_t thread_ : 20 = 0;
  std::uint32_t chain_ : 12 = 0;
};
static_assert(sizeof(KeptLife) == 20, "10^8 objects that never end are explained within 2 GiB");
static_assert(trace::kMostThreads <= 1 << 20, "a thread's number fits");

/// What was live after an event.
struct Moment {
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;
  std::uint64_t objects = 0;

  bool operator==(const Moment&) const = default;
};

/// A trace as lives of objects: each event with what became of which object. What replay, explain
/// and advise read.
/// \cost  Memory for the live objects, 20 bytes each at best; at worst for all that ever were.
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

  /// After this event.
  const Moment& live() const noexcept { return live_; }
  /// The first moment with the most bytes.
  const Moment& peak() const noexcept { return peak_; }
  /// The number of its event, from 1.
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
  ObjectTable<KeptLife> lives_;
  std::vector<std::uint64_t> last_of_thread_;  ///< the object that it allocated last
  Moment live_;
  Moment peak_;
  std::uint64_t peak_event_ = 0;
};

}  // namespace strata::cli
