#include "history/history.h"

#include <gtest/gtest.h>

#include <map>

#include "shared/trace/made_trace_test.h"

namespace strata::cli {
namespace {

std::uint64_t counted(const trace::Event& birth) {
  return std::min(birth.size_bytes, Life::kMostBytes);
}

TEST(History, KnowsEveryLifeOfARandomTrace) {
  const unsigned seed = trace::test_seed();
  trace::MadeTrace made;
  const std::vector<trace::Event> events = trace::add_random(*made.writer, seed, 50000);
  made.writer->end("reason=exit\n");
  const auto reader = trace::reader_of(made.bytes);
  History history(*reader);
  std::map<std::uint64_t, trace::Event> live;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak = 0;
  for (const trace::Event& event : events) {
    ASSERT_TRUE(history.next());
    ASSERT_EQ(history.is_death(), event.ended < trace::kUnknownObject);
    if (history.is_death()) {
      const trace::Event& birth = live.at(event.ended);
      ASSERT_EQ(history.ended().size_bytes, counted(birth));
      ASSERT_EQ(history.ended().stack, birth.stack);
      ASSERT_EQ(history.ended().thread, birth.thread);
      ASSERT_EQ(history.lifetime_ns(), event.time_ns - birth.time_ns);
      live_bytes -= counted(birth);
      live.erase(event.ended);
    }
    if (history.is_birth()) {
      live[event.object] = event;
      live_bytes += counted(event);
    }
    peak = std::max(peak, live_bytes);
    ASSERT_EQ(history.live().bytes, live_bytes);
    ASSERT_EQ(history.live().objects, live.size());
  }
  EXPECT_FALSE(history.next());
  EXPECT_EQ(history.peak().bytes, peak);
}

TEST(History, CallsWhatEndsBeforeAnythingElseBeginsTemporary) {
  using trace::Operation;
  trace::MadeTrace made;
  const auto add = [&](Operation operation, std::uint64_t begun, std::uint64_t ended) {
    made.writer->add({.operation = operation, .object = begun, .ended = ended, .size_bytes = 8});
  };
  add(Operation::kMalloc, 0, trace::kNoObject);
  add(Operation::kMalloc, 1, trace::kNoObject);
  add(Operation::kFree, trace::kNoObject, 1);
  add(Operation::kFree, trace::kNoObject, 0);
  made.writer->end("reason=exit\n");
  const auto reader = trace::reader_of(made.bytes);
  History history(*reader);
  std::vector<bool> temporary;
  while (history.next()) temporary.push_back(history.is_temporary());
  EXPECT_EQ(temporary, (std::vector<bool>{false, false, true, false}));
}

}  // namespace
}  // namespace strata::cli
