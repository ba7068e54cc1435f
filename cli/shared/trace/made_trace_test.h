#pragma once

#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "shared/trace/reader.h"
#include "shared/trace/writer.h"

namespace strata::trace {

/// From STRATA_SEED, or a new one; printed, so that a failure can be had again.
inline unsigned test_seed() {
  const char* const given = std::getenv("STRATA_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                                         : std::random_device()();
  std::cout << "STRATA_SEED=" << seed << "\n";
  return seed;
}

/// A file in memory, and its writer.
struct MadeTrace {
  MadeTrace() : writer(std::make_unique<Writer>(&MadeTrace::append, &bytes)) { writer->begin(); }

  static bool append(void* context, const void* at, std::size_t count) {
    static_cast<std::string*>(context)->append(static_cast<const char*>(at), count);
    return true;
  }

  std::string bytes;
  std::unique_ptr<Writer> writer;
};

inline std::unique_ptr<Reader> reader_of(const std::string& bytes) {
  return std::make_unique<Reader>("made", std::make_unique<std::istringstream>(bytes));
}

inline std::vector<Event> events_of(Reader& reader) {
  std::vector<Event> events;
  for (Event event; reader.next(event);) events.push_back(event);
  return events;
}

/// Calls as programs make them, and some that they do not.
class RandomEvents {
 public:
  RandomEvents(unsigned seed, std::uint32_t threads, std::uint32_t stacks)
      : random_(seed), threads_(threads), stacks_(stacks) {}

  Event next() {
    Event event;
    event.time_ns = time_ += pick(4) == 0 ? pick(5000) * 1000 : 0;
    event.thread = thread();
    const std::uint64_t kind = pick(100);
    if (kind < 40) {
      begin(event, static_cast<Operation>(pick(4)));
    } else if (kind < 55) {
      event.operation = Operation::kRealloc;
      const bool ends = pick(4) != 0;
      begin(event, event.operation);
      if (ends && event.object != kNoObject) end(event);
      if (event.object != kNoObject) live_.push_back(event.object);
      return event;
    } else {
      constexpr Operation kEnds[] = {Operation::kFree, Operation::kDelete, Operation::kLost};
      event.operation = kEnds[pick(3)];
      end(event);
    }
    if (event.object != kNoObject) live_.push_back(event.object);
    return event;
  }

 private:
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }

  /// In the order in which readers see them first.
  std::uint32_t thread() {
    if (next_object_ == 0 || pick(3) != 0) return last_thread_;
    const std::uint32_t most = std::min(seen_threads_ + 1, threads_);
    last_thread_ = static_cast<std::uint32_t>(pick(most));
    if (last_thread_ == seen_threads_) ++seen_threads_;
    return last_thread_;
  }

  void begin(Event& event, Operation operation) {
    event.operation = operation;
    event.size_bytes = pick(8) == 0 ? random_() >> pick(64) : 16 * pick(10);
    if (event.size_bytes == ~std::uint64_t{0}) --event.size_bytes;
    if (pick(10) == 0) event.alignment = std::uint64_t{1} << pick(64);
    event.stack = static_cast<std::uint32_t>(pick(stacks_ + 1));
    if (pick(50) != 0) event.object = next_object_++;
  }

  void end(Event& event) {
    event.ended = kUnknownObject;
    if (live_.empty() || pick(30) == 0) return;
    const std::size_t at = pick(2) == 0 ? live_.size() - 1 : pick(live_.size());
    event.ended = live_[at];
    live_[at] = live_.back();
    live_.pop_back();
  }

  std::mt19937_64 random_;
  const std::uint32_t threads_;
  const std::uint32_t stacks_;
  std::uint64_t time_ = 0;
  std::uint32_t last_thread_ = 0;
  std::uint32_t seen_threads_ = 1;
  std::uint64_t next_object_ = 0;
  std::vector<std::uint64_t> live_;
};

/// \returns  What was added to the writer.
inline std::vector<Event> add_random(Writer& writer, unsigned seed, std::size_t count) {
  constexpr std::uint32_t kStacks = 300;
  std::mt19937_64 random(seed);
  for (std::uint32_t i = 0; i < kStacks; ++i) {
    writer.add_stack({static_cast<std::uint32_t>(random() % (i + 1)), random() >> random() % 64});
  }
  RandomEvents made(seed, 20, kStacks);
  std::vector<Event> events;
  for (std::size_t i = 0; i < count; ++i) {
    events.push_back(made.next());
    writer.add(events.back());
    if (random() % 5000 == 0) writer.flush();
  }
  return events;
}

/// A trace with a block of each kind.
inline std::string small_trace() {
  MadeTrace made;
  made.writer->add_text(BlockKind::kProcess, "pid=17\ncommand=a b=c\n");
  made.writer->add_text(BlockKind::kModules,
                        "1000 2000 0 abcd /bin/one\n8000 9000 1000 - /two, three\n");
  made.writer->add_text(BlockKind::kThreads, "0 4711 main thread\n");
  const std::uint32_t main = made.writer->add_stack({0, 0x1010});
  const std::uint32_t inner = made.writer->add_stack({main, 0x8020});
  made.writer->add({.operation = Operation::kNew,
                    .stack = inner,
                    .time_ns = 5000,
                    .object = 0,
                    .size_bytes = 40,
                    .alignment = 64});
  made.writer->add({.operation = Operation::kRealloc,
                    .thread = 1,
                    .stack = main,
                    .time_ns = 7000,
                    .object = 1,
                    .ended = kUnknownObject,
                    .size_bytes = 100});
  made.writer->add_dropped(3);
  made.writer->add({.operation = Operation::kFree, .time_ns = 9000, .ended = 0});
  made.writer->end("reason=exit\n");
  return made.bytes;
}

}  // namespace strata::trace
