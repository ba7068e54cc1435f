#include "replay/plan_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <unordered_map>

#include "history/history.h"
#include "history/object_table.h"
#include "input/read_file.h"
#include "input/usage_error.h"
#include "replay/plan_file.h"
#include "replay/survey.h"

namespace strata::cli {
namespace {

using plan::Kind;
using trace::Operation;

// Chosen: an epoch ends after this many events, or after allocations of this share of the peak.
// Short enough that threads which drift within two epochs do not change the peak, long enough that
// threads rarely wait.
constexpr std::uint64_t kEpochEvents = 16384;
constexpr std::uint64_t kEpochShareOfPeak = 32;
constexpr std::uint64_t kShortestEpoch = 256;

class Writer {
 public:
  Writer(const Survey& survey, const PlanOptions& options, PlanFile& file)
      : survey_(survey), options_(options), file_(file) {}

  void add(const History& history) {
    const trace::Event& event = history.event();
    begin_thread(event);
    const bool has_call = history.is_birth() || history.is_death();
    if (!has_call) return;
    count_epoch(event);
    enter_epoch(event.thread);
    if (options_.keeps_times && event.time_ns > time_ns_) {
      time_ns_ = event.time_ns;
      put_payload(event.thread, Kind::kTime, time_ns_);
    }
    if (event.operation == Operation::kRealloc && history.is_birth()) {
      resize(history);
    } else if (history.is_birth()) {
      begin(history, kind_of(event.operation));
    } else {
      end(history);
    }
    last_thread_ = event.thread;
  }

  void finish() {
    plan::Header header = survey_.header();
    header.shared_slots = turns_.size();
    header.calls = calls_;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      file_.need_stream(i);
      file_.set_slots(i, threads_[i].slots);
    }
    file_.finish(header, epoch_threads_);
  }

  std::uint64_t calls() const noexcept { return calls_; }

 private:
  struct Thread {
    std::uint64_t slots = 0;
    std::vector<std::uint32_t> free_slots;
    std::uint64_t epoch = ~std::uint64_t{0};
  };
  /// The slot of an object in the replay.
  struct Place {
    std::uint32_t slot = 0;
    std::uint32_t turn = 0;
    bool is_shared = false;
    bool is_routed = false;
  };

  static Kind kind_of(Operation operation) {
    switch (operation) {
      case Operation::kCalloc:
        return Kind::kCalloc;
      case Operation::kAligned:
        return Kind::kAligned;
      case Operation::kNew:
        return Kind::kNew;
      default:
        return Kind::kMalloc;
    }
  }

  void begin_thread(const trace::Event& event) {
    if (event.thread < threads_.size()) return;
    threads_.resize(event.thread + 1);
    // The event before this thread's first may have started the thread.
    if (event.thread == 0) return;
    put_payload(last_thread_, Kind::kStart, event.thread);
    last_thread_ = event.thread;
  }

  void count_epoch(const trace::Event& event) {
    if (survey_.threads() < 2) return;
    ++epoch_events_;
    if (event.object != trace::kNoObject) epoch_bytes_ += event.size_bytes;
    const bool is_full =
        epoch_events_ >= kEpochEvents || (epoch_events_ >= kShortestEpoch &&
                                          epoch_bytes_ > survey_.peak_bytes() / kEpochShareOfPeak);
    if (!epoch_threads_.empty() && !is_full) return;
    epoch_threads_.push_back(0);
    epoch_events_ = 0;
    epoch_bytes_ = 0;
  }

  void enter_epoch(std::uint32_t thread) {
    if (epoch_threads_.empty()) return;
    const std::uint64_t epoch = epoch_threads_.size() - 1;
    if (threads_[thread].epoch == epoch) return;
    threads_[thread].epoch = epoch;
    ++epoch_threads_.back();
    put_payload(thread, Kind::kEpoch, epoch);
  }

  void put_payload(std::uint32_t thread, Kind kind, std::uint64_t payload) {
    file_.put(thread, static_cast<std::uint64_t>(kind) | payload << plan::kPayloadShift);
  }

  void begin(const History& history, Kind kind) {
    const trace::Event& event = history.event();
    std::uint64_t bytes = event.size_bytes;
    if (const Survey::Chain* chain = reserved(event.object)) {
      if (chain->first != event.object) return grow(event.object);
      bytes = chain->bytes;
    }
    const bool is_routed = options_.growth == Growth::kIgnored && options_.is_routed(event.stack);
    const Place place = make_place(event, is_routed);
    places_.add(event.object) = place;
    put_begin(event, kind, bytes, place);
    ++calls_;
  }

  const Survey::Chain* reserved(std::uint64_t object) const {
    return options_.growth == Growth::kReserved ? survey_.growth_of(object) : nullptr;
  }

  /// Continues a chain of growth, whose room is already reserved.
  void grow(std::uint64_t object) {
    places_.add(object) = grown_.find(reserved(object)->first)->second;
  }

  void put_begin(const trace::Event& event, Kind kind, std::uint64_t bytes, const Place& place) {
    std::uint64_t word = word_of(kind, place);
    const bool is_wide = bytes >= plan::kNarrowBytes;
    if (is_wide) word |= plan::kWide;
    if (!is_wide) word |= bytes << plan::kBytesShift;
    if (event.alignment != 0) word |= plan::kAligned;
    file_.put(event.thread, word);
    if (is_wide) file_.put(event.thread, bytes);
    if (place.is_shared || event.alignment != 0) {
      const auto logarithm =
          static_cast<std::uint64_t>(std::countr_zero(std::max<std::uint64_t>(event.alignment, 1)));
      file_.put(event.thread, place.turn | logarithm << 32);
    }
  }

  void put_end(std::uint32_t thread, Kind kind, const Place& place) {
    file_.put(thread, word_of(kind, place));
    if (place.is_shared) file_.put(thread, place.turn);
  }

  static std::uint64_t word_of(Kind kind, const Place& place) {
    return static_cast<std::uint64_t>(kind) | (place.is_shared ? plan::kShared : 0u) |
           (place.is_routed ? plan::kRouted : 0u) | std::uint64_t{place.slot} << plan::kSlotShift;
  }

  void end(const History& history) {
    const trace::Event& event = history.event();
    const Place place = places_.remove(event.ended);
    if (goes_on(event.ended)) return;
    put_move(event, place);
    const bool is_delete = event.operation == Operation::kDelete;
    put_end(event.thread, is_delete ? Kind::kDelete : Kind::kFree, place);
    give_back(event.thread, place);
    ++calls_;
  }

  /// Whether an object that ends has grown into a larger one.
  bool goes_on(std::uint64_t object) {
    const Survey::Chain* chain = reserved(object);
    if (chain == nullptr) return false;
    if (chain->last != object) return true;
    grown_.erase(chain->first);
    return false;
  }

  /// Copies the bytes of a grown object before its old slot is freed; not between threads.
  void put_move(const trace::Event& event, const Place& from) {
    if (options_.growth != Growth::kMoved) return;
    const Survey::Chain* chain = survey_.growth_of(event.ended);
    if (chain == nullptr) return;
    const auto newest = grown_.find(chain->first);
    if (chain->last != event.ended && !from.is_shared && !newest->second.is_shared) {
      file_.put(event.thread, word_of(Kind::kMove, from));
      file_.put(event.thread, word_of(Kind::kNone, newest->second));
    }
    if (chain->last == event.ended) grown_.erase(newest);
  }

  void resize(const History& history) {
    const trace::Event& event = history.event();
    if (!history.is_death()) return begin(history, Kind::kMalloc);
    if (const Survey::Chain* chain = reserved(event.object);
        chain != nullptr && chain->first != event.object) {
      places_.remove(event.ended);
      return grow(event.object);
    }
    const Place old = places_.remove(event.ended);
    goes_on(event.ended);
    // Takes the new slot before freeing the old one: both objects exist during the call.
    const Place place = make_place(event, false);
    places_.add(event.object) = place;
    put_begin(event, Kind::kRealloc, event.size_bytes, place);
    put_end(event.thread, Kind::kFree, old);
    give_back(event.thread, old);
    ++calls_;
  }

  Place make_place(const trace::Event& event, bool is_place_routed) {
    Place place;
    place.is_routed = is_place_routed;
    place.is_shared = survey_.is_shared(event.object);
    if (place.is_shared) {
      place.slot = take_shared();
      place.turn = turns_[place.slot];
      turns_[place.slot] += 2;
    } else {
      place.slot = take_private(threads_[event.thread]);
    }
    // The newest slot of a chain; a reserved chain has only its first.
    const Survey::Chain* chain = survey_.growth_of(event.object);
    if (chain != nullptr) grown_[chain->first] = place;
    return place;
  }

  /// Takes the slot that has been free longest, so that its next user waits least. There are as
  /// many slots as the trace had shared objects at once, so no thread gets further ahead than it
  /// did.
  std::uint32_t take_shared() {
    if (!free_shared_.empty()) {
      const std::uint32_t slot = free_shared_.front();
      free_shared_.pop_front();
      return slot;
    }
    turns_.push_back(0);
    return narrow(turns_.size() - 1);
  }

  static std::uint32_t take_private(Thread& thread) {
    if (thread.free_slots.empty()) return narrow(thread.slots++);
    const std::uint32_t slot = thread.free_slots.back();
    thread.free_slots.pop_back();
    return slot;
  }

  static std::uint32_t narrow(std::uint64_t slot) {
    if (slot >= plan::kMostSlots) {
      throw UsageError(
          fmt::format("more than {} objects live at once in the trace: strata trace "
                      "cut takes a part of it",
                      plan::kMostSlots));
    }
    return static_cast<std::uint32_t>(slot);
  }

  void give_back(std::uint32_t thread, const Place& place) {
    if (place.is_shared) {
      free_shared_.push_back(place.slot);
    } else {
      threads_[thread].free_slots.push_back(place.slot);
    }
  }

  const Survey& survey_;
  const PlanOptions& options_;
  PlanFile& file_;
  std::vector<Thread> threads_;
  ObjectTable<Place> places_;
  std::unordered_map<std::uint64_t, Place> grown_;  ///< by the first object of the chain
  std::vector<std::uint32_t> turns_;                ///< the next turn of each shared slot
  std::deque<std::uint32_t> free_shared_;
  std::vector<std::uint32_t> epoch_threads_;
  std::uint64_t epoch_events_ = 0;
  std::uint64_t epoch_bytes_ = 0;
  std::uint64_t time_ns_ = 0;
  std::uint64_t calls_ = 0;
  std::uint32_t last_thread_ = 0;
};

}  // namespace

Planned write_plan(const std::string& trace, const std::string& path, const PlanOptions& options,
                   const Advance& advance) {
  refuse_pipe(trace);
  trace::Reader first(trace);
  History surveyed(first);
  const Survey survey(surveyed, options, advance);
  if (survey.events() == 0) throw UsageError(fmt::format("'{}' has no events to replay", trace));

  trace::Reader second(trace);
  History history(second);
  PlanFile file(path);
  Writer writer(survey, options, file);
  for (std::uint64_t i = 0; i < survey.events() && history.next(); ++i) {
    writer.add(history);
    if (i % kEventsPerReport == 0) {
      advance(static_cast<double>(i) / static_cast<double>(survey.events()));
    }
  }
  writer.finish();
  return {trace,
          path,
          writer.calls(),
          second.thread_count(),
          survey.peak_bytes(),
          first.dropped_events(),
          second.time_ns(),
          first.is_cut()};
}

}  // namespace strata::cli
