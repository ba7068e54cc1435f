#include "replay/replay.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "bench/run_cells.h"
#include "history/history.h"
#include "input/usage_error.h"
#include "process/temporary_folder.h"
#include "shared/trace/made_trace_test.h"

namespace strata::cli {
namespace {

using trace::Event;
using trace::MadeTrace;
using trace::Operation;

/// Limits sizes and alignments to those that a process can have.
Event sane(Event event) {
  event.size_bytes %= 5000;
  if (event.alignment > 4096) event.alignment = 4096;
  return event;
}

std::string random_trace(unsigned seed, std::uint32_t threads, int events) {
  MadeTrace made;
  trace::RandomEvents random(seed, threads, 0);
  for (int i = 0; i < events; ++i) made.writer->add(sane(random.next()));
  made.writer->end("reason=exit\n");
  return made.bytes;
}

/// Of so many objects, a thread makes as many as a batch has, another resizes and a third frees
/// them. No thread gets further ahead than a batch: it waits for the others then.
std::string handed_on(std::uint64_t objects, std::uint64_t batch) {
  MadeTrace made;
  for (std::uint64_t first = 0; first < 2 * objects; first += 2 * batch) {
    const auto add_all = [&](const auto& event_of) {
      for (std::uint64_t i = 0; i < batch; ++i) made.writer->add(event_of(first + i));
    };
    add_all([](std::uint64_t object) -> Event {
      return {.operation = Operation::kNew, .thread = 0, .object = object, .size_bytes = 64};
    });
    add_all([&](std::uint64_t object) -> Event {
      return {.operation = Operation::kRealloc,
              .thread = 1,
              .object = object + batch,
              .ended = object,
              .size_bytes = 200};
    });
    add_all([&](std::uint64_t object) -> Event {
      return {.operation = Operation::kFree, .thread = 2, .ended = object + batch};
    });
  }
  made.writer->end("reason=exit\n");
  return made.bytes;
}

class Replay : public testing::Test {
 protected:
  std::string write(const std::string& bytes) {
    const std::string path = folder_.file("made.trace");
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  Planned prepare(const std::string& bytes, const PlanOptions& options = {}) {
    return write_plan(write(bytes), folder_.file("made.plan"), options, [](double) {});
  }

  Row run(const Planned& planned, const ReplayOptions& options = {}, double sample_rate = 0.1) {
    BenchPlan plan;
    plan.catalogue = &catalogue_;
    plan.contenders = {{"system", {}, {}, false}};
    plan.runs = 1;
    plan.load.sample_rate = sample_rate;
    plan.timeout_s = 60;
    plan.cells = {replay_cell(plan, planned, options)};
    SignalWatch signals;
    BenchOutcome outcome = run_cells(plan, signals, {});
    EXPECT_EQ(outcome.rows.size(), 1u);
    return outcome.rows.front();
  }

  static double median(const Row& row, const char* metric) {
    const Summary* summary = row.metric(metric);
    return summary == nullptr ? -1 : summary->median;
  }

  TemporaryFolder folder_{"strata-test"};
  Catalogue catalogue_ = read_catalogue();
};

TEST_F(Replay, MakesEveryCallOfRandomThreadsUnderEveryTouch) {
  const unsigned seed = trace::test_seed();
  for (const char* touch : {"written", "all", "none"}) {
    const Planned planned = prepare(random_trace(seed, 20, 20000));
    ReplayOptions options;
    options.touch = touch;
    const Row row = run(planned, options);
    EXPECT_TRUE(row.ok) << row.reason << row.last_output;
    EXPECT_EQ(median(row, "ops"), static_cast<double>(planned.calls));
    EXPECT_GT(planned.calls, 15000u);
  }
}

TEST_F(Replay, KeepsTheRecordedPace) {
  MadeTrace made;
  made.writer->add({.operation = Operation::kMalloc, .time_ns = 0, .object = 0, .size_bytes = 8});
  made.writer->add({.operation = Operation::kFree, .time_ns = 150'000'000, .ended = 0});
  made.writer->end("reason=exit\n");
  PlanOptions plan;
  plan.keeps_times = true;
  const Row row = run(prepare(made.bytes, plan));
  EXPECT_TRUE(row.ok) << row.reason;
  EXPECT_GE(median(row, "elapsed_s"), 0.15);
}

TEST_F(Replay, WaitsForWhatAnotherThreadMakes) {
  // One by one takes three changes of thread per object: few, as each may last a while.
  const std::pair<std::uint64_t, std::uint64_t> loads[] = {{300, 1}, {30000, 100}};
  for (const auto& [objects, batch] : loads) {
    const Planned planned = prepare(handed_on(objects, batch));
    EXPECT_EQ(planned.threads, 3u);
    const Row row = run(planned);
    EXPECT_TRUE(row.ok) << row.reason;
    EXPECT_EQ(median(row, "ops"), 3.0 * static_cast<double>(objects));
  }
}

TEST_F(Replay, TellsWhereWhatLivesAtAnEventLies) {
  const unsigned seed = trace::test_seed();
  const std::string bytes = random_trace(seed, 3, 5000);
  const auto reader = trace::reader_of(bytes);
  History history(*reader);
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(history.next());
  PlanOptions plan;
  plan.until_event = 3000;
  ReplayOptions options;
  options.map = folder_.file("map");
  const Row row = run(prepare(bytes, plan), options);
  EXPECT_TRUE(row.ok) << row.reason;
  EXPECT_EQ(std::filesystem::file_size(options.map), 16 * history.live().objects);
}

TEST_F(Replay, ReservesWhatAVectorGrowsTo) {
  MadeTrace made;
  const std::uint32_t stack = made.writer->add_stack({0, 0x1000});
  std::uint64_t object = 0;
  for (std::uint64_t size = 16; size <= 16384; size *= 2) {
    made.writer->add(
        {.operation = Operation::kNew, .stack = stack, .object = object, .size_bytes = size});
    if (object > 0) made.writer->add({.operation = Operation::kDelete, .ended = object - 1});
    ++object;
  }
  made.writer->add({.operation = Operation::kDelete, .ended = object - 1});
  made.writer->end("reason=exit\n");
  EXPECT_EQ(prepare(made.bytes).calls, 22u);
  PlanOptions plan;
  plan.routed = {false, true};
  plan.growth = Growth::kMoved;
  EXPECT_EQ(prepare(made.bytes, plan).calls, 22u);
  ReplayOptions whole;
  whole.touch = "all";
  const Row moved = run(prepare(made.bytes, plan), whole);
  EXPECT_TRUE(moved.ok) << moved.reason;
  plan.growth = Growth::kReserved;
  const Planned planned = prepare(made.bytes, plan);
  EXPECT_EQ(planned.calls, 2u);
  const Row row = run(planned);
  EXPECT_TRUE(row.ok) << row.reason;
}

TEST_F(Replay, TakesWhatIsFreedBeforeASmallerOneForNoGrowth) {
  MadeTrace made;
  const std::uint32_t stack = made.writer->add_stack({0, 0x1000});
  const auto begin = [&](std::uint64_t object, std::uint64_t size) {
    made.writer->add(
        {.operation = Operation::kMalloc, .stack = stack, .object = object, .size_bytes = size});
  };
  const auto end = [&](std::uint64_t object) {
    made.writer->add({.operation = Operation::kFree, .ended = object});
  };
  begin(0, 100);
  begin(1, 200);
  end(0);  // the second took its place
  begin(2, 400);
  end(2);
  end(1);  // and the third none: it is gone
  made.writer->end("reason=exit\n");
  PlanOptions plan;
  plan.routed = {false, true};
  for (const Growth growth : {Growth::kMoved, Growth::kReserved}) {
    plan.growth = growth;
    EXPECT_EQ(prepare(made.bytes, plan).calls, 6u);
  }
}

TEST_F(Replay, SendsAPlacesCallsToEveryAllocatorOfTheShelf) {
  MadeTrace made;
  const std::uint32_t here = made.writer->add_stack({0, 0x1000});
  const std::uint32_t there = made.writer->add_stack({0, 0x2000});
  std::uint64_t object = 0;
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t first = object;
    for (int i = 0; i < 200; ++i) {
      made.writer->add({.operation = Operation::kNew,
                        .stack = i % 2 == 0 ? here : there,
                        .object = object++,
                        .size_bytes = i % 2 == 0 ? 48u : 100u});
    }
    for (std::uint64_t each = first; each < object; ++each) {
      made.writer->add({.operation = Operation::kDelete, .ended = each});
    }
  }
  made.writer->end("reason=exit\n");
  PlanOptions plan;
  plan.routed = {false, true, false};
  const Planned planned = prepare(made.bytes, plan);
  for (const char* route : {"arena", "block", "bitmap", "reuse"}) {
    ReplayOptions options;
    options.route = route;
    options.touch = "all";
    const Row row = run(planned, options);
    EXPECT_TRUE(row.ok) << route << ": " << row.reason;
  }
}

TEST_F(Replay, GivesZeroedMemoryForCallocWhereverAPlacesCallsGo) {
  MadeTrace made;
  const std::uint32_t stack = made.writer->add_stack({0, 0x1000});
  std::uint64_t object = 0;
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t first = object;
    for (int i = 0; i < 100; ++i) {
      made.writer->add(
          {.operation = Operation::kCalloc, .stack = stack, .object = object++, .size_bytes = 48});
    }
    for (std::uint64_t each = first; each < object; ++each) {
      made.writer->add({.operation = Operation::kFree, .ended = each});
    }
  }
  made.writer->end("reason=exit\n");
  PlanOptions plan;
  plan.routed = {false, true};
  const Planned planned = prepare(made.bytes, plan);
  for (const char* route : {"arena", "block", "bitmap", "heap", "heaps", "reuse"}) {
    ReplayOptions options;
    options.route = route;
    const Row row = run(planned, options);
    EXPECT_TRUE(row.ok) << route << ": " << row.reason;
  }
}

TEST_F(Replay, TimesTheShareOfCallsThatIsAskedFor) {
  constexpr std::uint64_t kObjects = 20000;
  MadeTrace made;
  for (std::uint64_t i = 0; i < kObjects; ++i) {
    made.writer->add({.operation = Operation::kMalloc, .object = i, .size_bytes = 8});
    made.writer->add({.operation = Operation::kFree, .ended = i});
  }
  made.writer->end("reason=exit\n");
  const Planned planned = prepare(made.bytes);
  for (const double share : {0.01, 0.3, 0.4, 0.7, 0.9, 1.0}) {
    const Row row = run(planned, {}, share);
    std::uint64_t timed = 0;
    for (const auto& [kind, latency] : row.latencies) timed += latency.count;
    EXPECT_NEAR(static_cast<double>(timed) / (2 * kObjects), share, 0.1 * share);
  }
}

TEST_F(Replay, RefusesATraceWithoutEvents) {
  MadeTrace made;
  made.writer->end("reason=exit\n");
  EXPECT_THROW(prepare(made.bytes), UsageError);
}

}  // namespace
}  // namespace strata::cli
