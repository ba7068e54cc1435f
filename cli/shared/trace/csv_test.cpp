#include "shared/trace/csv.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <ios>
#include <sstream>

#include "shared/refusal_test.h"
#include "shared/trace/cut.h"
#include "shared/trace/made_trace_test.h"

namespace strata::trace {
namespace {

using testing::HasSubstr;

std::string to_csv(const std::string& bytes) {
  const auto reader = reader_of(bytes);
  std::ostringstream out;
  write_csv(*reader, out);
  return out.str();
}

std::string from_csv(const std::string& text) {
  MadeTrace made;
  std::istringstream in(text);
  read_csv("made.csv", in, *made.writer, [](const std::string&) {});
  return made.bytes;
}

/// A file whose disk fails after some bytes.
class FailingFile final : public std::stringbuf {
 public:
  explicit FailingFile(const std::string& text) : std::stringbuf(text) {}

 private:
  int_type underflow() override {
    const int_type next = std::stringbuf::underflow();
    if (next != traits_type::eof()) return next;
    errno = EIO;
    throw std::ios_base::failure("as a file does");
  }
};

/// A trace of a library, and of another one that is loaded in its place later.
std::string trace_of_a_plugin_and_its_successor() {
  MadeTrace made;
  const std::uint64_t objects[] = {0, 1, 2};
  made.writer->add_text(BlockKind::kModules, "1000 3000 0 - /before\n");
  const std::uint32_t before = made.writer->add_stack({0, 0x1010});
  made.writer->add_text(BlockKind::kModules, "1000 2000 0 - /after\n");
  const std::uint32_t after = made.writer->add_stack({0, 0x1010});
  for (const std::uint64_t object : objects) {
    made.writer->add({.stack = object == 0 ? after : before, .object = object, .size_bytes = 8});
  }
  made.writer->end("reason=exit\n");
  return made.bytes;
}

/// The files that contain the events' stacks.
std::string modules_of(const std::string& bytes) {
  const auto reader = reader_of(bytes);
  std::string paths;
  for (const Event& event : events_of(*reader)) {
    paths += reader->modules()[reader->module_of(event.stack)].path;
  }
  return paths;
}

std::vector<Event> events_from(const std::string& text) {
  const auto reader = reader_of(from_csv(text));
  return events_of(*reader);
}

TEST(TraceCsv, AFileThatCannotBeReadToItsEndIsNotTakenForAShorterOne) {
  MadeTrace made;
  FailingFile file("operation,object,size_bytes\nmalloc,a,8\nmalloc,b,8\nmal");
  std::istream in(&file);
  EXPECT_EQ(refused_with<TraceError>([&] { read_csv("made.csv", in, *made.writer, {}); }),
            "'made.csv' cannot be read beyond line 3: Input/output error");
}

std::string csv_refusal_of(const std::string& text) {
  return refused_with<TraceError>([&] { from_csv(text); });
}

TEST(TraceCsv, IsWhatOneReads) {
  EXPECT_EQ(to_csv(small_trace()),
            "operation,time_ns,thread,object,size_bytes,alignment,stack,ended\n"
            "#process,command,a b=c\n"
            "#process,pid,17\n"
            "#thread,0,4711,main thread\n"
            "#module,0x1000,0x2000,0x0,abcd,/bin/one\n"
            "#stack,1,0,0x1010\n"
            "#module,0x8000,0x9000,0x1000,,\"/two, three\"\n"
            "#stack,2,1,0x8020\n"
            "new,5000,0,0,40,64,2,\n"
            "realloc,7000,1,1,100,,1,unknown\n"
            "#dropped,3\n"
            "free,9000,0,,,,,0\n"
            "#end,reason,exit\n");
}

TEST(TraceCsv, LeadsBackToTheSameTrace) {
  // The threads' names now come at the end.
  const std::string text = to_csv(from_csv(to_csv(small_trace())));
  EXPECT_EQ(text.size(), to_csv(small_trace()).size());
  EXPECT_EQ(to_csv(from_csv(text)), text);

  MadeTrace made;
  const std::vector<Event> added = add_random(*made.writer, test_seed(), 20000);
  made.writer->end("reason=exit\n");
  const std::vector<Event> read = events_from(to_csv(made.bytes));
  ASSERT_EQ(read.size(), added.size());
  for (std::size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], added[i]) << "event " << i;
}

TEST(TraceCsv, OfOtherToolsNamesObjectsAsItLikes) {
  const std::vector<Event> events = events_from(
      "thread,operation,object,size_bytes\r\n"
      "main,malloc,0x7f00,10\r\n"
      "worker,malloc,0x8000,0x20\n"
      "\n"
      "main,free,0x7f00\n"
      "main,malloc,0x7f00,30\n"
      "worker,free,0x9999\n"
      "worker,malloc,0x7f00,40\n"
      "main,malloc,,50\n");
  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(events[1].thread, 1u);
  EXPECT_EQ(events[1].size_bytes, 32u);
  EXPECT_EQ(events[2].ended, 0u);
  EXPECT_EQ(events[3].object, 2u);
  EXPECT_EQ(events[4].ended, kUnknownObject);
  EXPECT_EQ(events[5].operation, Operation::kLost);
  EXPECT_EQ(events[5].ended, 2u);
  EXPECT_EQ(events[6].object, 3u);
  EXPECT_EQ(events[7].object, kNoObject);
}

TEST(TraceCsv, OfSpreadsheetsMayHaveAMarkAndEmptyQuotes) {
  const std::vector<Event> events = events_from(
      "\xEF\xBB\xBFoperation,thread,object,size_bytes\n"
      "\"malloc\",\"\",\"a,\"\"b\"\"\",8\n"
      "free,,\"a,\"\"b\"\"\",\n");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].thread, 0u) << "the one without a name";
  EXPECT_EQ(events[1].ended, 0u);
}

TEST(TraceCsv, MayHaveColumnsOfAnyNames) {
  EXPECT_EQ(events_from("{id},operation,size_bytes\n7,malloc,8\n").size(), 1u);
}

TEST(TraceCsv, ReusesNamesOfObjectsThatWereLost) {
  const std::vector<Event> events = events_from(
      "operation,object,size_bytes,ended\n"
      "malloc,a,8\n"
      "malloc,a,16\n"
      "realloc,,32,a\n"  // fails: the object stays
      "free,a\n");
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].operation, Operation::kLost);
  EXPECT_EQ(events[1].ended, 0u);
  EXPECT_EQ(events[3].object, kNoObject);
  EXPECT_EQ(events[3].ended, kNoObject);
  EXPECT_EQ(events[4].ended, 1u);
}

TEST(TraceCsv, IsRefusedByTheLine) {
  const std::string columns = "operation,time_ns,thread,object,size_bytes,alignment,stack,ended\n";
  EXPECT_THAT(
      csv_refusal_of(""),
      HasSubstr("'made.csv' is empty; the first line names the columns, as in: operation,"));
  EXPECT_EQ(
      csv_refusal_of("{\n  \"schema\": \"strata-results/1\",\n"),
      "'made.csv' is neither a trace nor CSV: it looks like results, which strata report reads");
  EXPECT_EQ(
      csv_refusal_of("{\"schema\":\"strata-stats/1\",\"name\":\"malloc\"}"),
      "'made.csv' is neither a trace nor CSV: it looks like statistics of the malloc, which no "
      "command reads");
  EXPECT_THAT(csv_refusal_of("\x1f\x8b\x08\"\n"), HasSubstr("it looks like a heap profile"));
  EXPECT_EQ(csv_refusal_of("operation,\"time\n"), "line 1 of 'made.csv': a quote is not closed");
  EXPECT_THAT(csv_refusal_of("a,b\n"),
              HasSubstr("line 1 of 'made.csv': no column is named 'operation'"));
  EXPECT_EQ(csv_refusal_of(columns + "malloc,1x\n"),
            "line 2 of 'made.csv': '1x' is no number of 'time_ns'");
  EXPECT_THAT(csv_refusal_of(columns + "malloc,4611686018427387905\n"),
              HasSubstr("later than a trace can be"));
  EXPECT_EQ(csv_refusal_of(columns + "malloc,7\nmalloc\nmalloc,7\nmalloc,6\n"),
            "line 5 of 'made.csv': the time is before that of a line above; sort the lines by "
            "time_ns");
  EXPECT_THAT(csv_refusal_of(columns + "sbrk\n"), HasSubstr("'sbrk' is no operation"));
  EXPECT_THAT(csv_refusal_of(columns + "malloc,,,1,8,3\n"), HasSubstr("no power of two"));
  EXPECT_THAT(csv_refusal_of(columns + "malloc,,,1,8,,7\n"), HasSubstr("the stack is not defined"));
  EXPECT_THAT(csv_refusal_of(columns + "#stack,2,1,0x10\n"), HasSubstr("caller is not defined"));
  EXPECT_THAT(csv_refusal_of(columns + "free\n"), HasSubstr("which object ends"));
  for (const char* property : {"#process,,value\n", "#process,a=b,value\n", "#end,,value\n"}) {
    EXPECT_THAT(csv_refusal_of(columns + property), HasSubstr("a property has no name"));
  }
  EXPECT_THAT(csv_refusal_of(columns + "\"malloc\n"), HasSubstr("a quote is not closed"));
  const std::string too_long(kColumnBytes, 'x');
  for (const char* kind : {"#process,name,", "#end,name,", "#thread,0,7,", "#module,0,1,2,,"}) {
    EXPECT_THAT(csv_refusal_of(columns + kind + too_long + "\n"),
                HasSubstr("line 2 of 'made.csv': it is too long"));
  }
}

TEST(TraceCsv, NamesAnyNumberOfThreads) {
  std::string text = "operation,thread,size_bytes\n";
  for (int i = 0; i < 20'000; ++i) text += fmt::format("#thread,{0},{0},the-name-of-a-thread\n", i);
  for (int i = 0; i < 20'000; ++i) text += fmt::format("malloc,{},8\n", i);
  const auto reader = reader_of(from_csv(text));
  events_of(*reader);
  EXPECT_EQ(reader->threads().size(), 20'000u);
}

TEST(TraceCut, IsATraceOfItsOwn) {
  MadeTrace made;
  const std::vector<Event> added = add_random(*made.writer, test_seed(), 60000);
  made.writer->end("reason=exit\n");
  // The part begins with a call: it omits how an object from before the part was lost.
  const auto first = std::find_if(added.begin() + 20000, added.end(), [](const Event& event) {
    return event.operation != Operation::kLost;
  });
  const std::uint64_t from = first->time_ns;
  const std::uint64_t until = added[40000].time_ns;
  MadeTrace part;
  const auto whole = reader_of(made.bytes);
  cut(*whole, *part.writer, from, until);
  const auto reader = reader_of(part.bytes);
  const std::vector<Event> events = events_of(*reader);
  EXPECT_EQ(reader->ending().at("reason"), "cut");
  std::size_t expected = 0;
  for (const Event& event : added) {
    expected +=
        event.time_ns >= from && event.time_ns < until && event.operation != Operation::kLost;
  }
  std::size_t found = 0;
  for (const Event& event : events) found += event.operation != Operation::kLost;
  EXPECT_EQ(found, expected);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front().time_ns, 0u);
}

TEST(TraceCut, KeepsTheStacksThatItNeeds) {
  MadeTrace part;
  const auto whole = reader_of(small_trace());
  cut(*whole, *part.writer, 6000, 8000);
  EXPECT_EQ(to_csv(part.bytes),
            "operation,time_ns,thread,object,size_bytes,alignment,stack,ended\n"
            "#process,command,a b=c\n"
            "#process,pid,17\n"
            "#module,0x1000,0x2000,0x0,abcd,/bin/one\n"
            "#stack,1,0,0x1010\n"
            "realloc,1000,0,0,100,,1,unknown\n"
            "#dropped,3\n"
            "#end,reason,cut\n");
}

TEST(TraceCut, NumbersObjectsAnewAndForgetsThoseFromBefore) {
  const std::string text =
      "operation,time_ns,thread,object,size_bytes,alignment,stack,ended\n"
      "malloc,1000,0,0,8,,,\n"
      "malloc,1000,0,1,8,,,\n"
      "malloc,2000,0,2,8,,,\n"
      "lost,3000,0,,,,,1\n"
      "free,3000,0,,,,,2\n"
      "free,3000,0,,,,,0\n";
  MadeTrace part;
  cut(*reader_of(from_csv(text)), *part.writer, 2000, 4000);
  EXPECT_EQ(to_csv(part.bytes),
            "operation,time_ns,thread,object,size_bytes,alignment,stack,ended\n"
            "malloc,0,0,0,8,,,\n"
            "free,1000,0,,,,,0\n"
            "free,1000,0,,,,,unknown\n"
            "#end,reason,cut\n");
}

TEST(TraceCut, TellsAModuleAgainOnlyWhereAnotherLiesThere) {
  const std::string text =
      "operation,size_bytes,stack\n"
      "#module,0x1000,0x2000,0,,/low\n#module,0x2000,0x3000,0,,/high\n"
      "#stack,1,0,0x1001\n#stack,2,0,0x2000\n#stack,3,0,0x2001\n#stack,4,0,0x3000\n"
      "#stack,5,0,0x1010\n#module,0x1000,0x2000,0,,/new\n#stack,6,0,0x1010\n";
  const auto modules_of_calls_from = [&](std::initializer_list<int> stacks) {
    std::string calls;
    for (const int stack : stacks) calls += fmt::format("malloc,8,{}\n", stack);
    MadeTrace part;
    cut(*reader_of(from_csv(text + calls)), *part.writer, 0, ~std::uint64_t{0});
    const auto reader = reader_of(part.bytes);
    events_of(*reader);
    std::string told;
    for (const Module& module : reader->modules()) told += module.path;
    return modules_of(part.bytes) + " " + told;
  };
  // A return address may lie behind the last byte of a file, but not at the first.
  EXPECT_EQ(modules_of_calls_from({1, 3, 2, 4}), "/low/high/low/high /low/high");
  EXPECT_EQ(modules_of_calls_from({1, 6, 5}), "/low/new/low /low/new/low");
}

TEST(TraceCut, TellsHowManyCallsWereDroppedInThePart) {
  const std::string text =
      "operation,time_ns,size_bytes\n#dropped,1\nmalloc,1000,8\n#dropped,20\nmalloc,2000,8\n"
      "#dropped,300\nmalloc,3000,8\n#dropped,4000\nmalloc,4000,8\n#dropped,50000\n";
  const auto dropped_in = [&](std::uint64_t from, std::uint64_t until) {
    MadeTrace part;
    cut(*reader_of(from_csv(text)), *part.writer, from, until);
    const auto reader = reader_of(part.bytes);
    events_of(*reader);
    return reader->dropped_events();
  };
  EXPECT_EQ(dropped_in(0, ~std::uint64_t{0}), 54321u);
  // Events dropped at a border may belong to the part.
  EXPECT_EQ(dropped_in(2000, 4000), 4320u);
  EXPECT_EQ(dropped_in(4000, 5000), 54000u);
}

TEST(TraceCut, KeepsStacksOfAnyDepth) {
  constexpr int kFrames = 400'000;
  std::string text = "operation,size_bytes,stack\n";
  for (int i = 1; i <= kFrames; ++i) text += fmt::format("#stack,{},{},{:#x}\n", i, i - 1, i);
  text += fmt::format("malloc,8,{}\n", kFrames);
  const auto whole = reader_of(from_csv(text));
  MadeTrace part;
  cut(*whole, *part.writer, 0, ~std::uint64_t{0});
  const auto reader = reader_of(part.bytes);
  const std::vector<Event> events = events_of(*reader);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(reader->stacks().size(), 1u + kFrames);
  EXPECT_EQ(reader->stacks()[events[0].stack].return_address, std::uint64_t{kFrames});
}

TEST(TraceCut, NamesAnyNumberOfThreads) {
  MadeTrace made;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    made.writer->add_text(BlockKind::kThreads, fmt::format("{0} {0} the-name-of-a-thread\n", i));
    made.writer->add({.thread = i, .object = i, .size_bytes = 8});
  }
  made.writer->end("reason=exit\n");
  MadeTrace part;
  cut(*reader_of(made.bytes), *part.writer, 0, ~std::uint64_t{0});
  const auto reader = reader_of(part.bytes);
  events_of(*reader);
  ASSERT_EQ(reader->threads().size(), 20'000u);
  EXPECT_EQ(reader->threads().back(), (Thread{19'999, 19'999, "the-name-of-a-thread"}));
}

TEST(TraceCsv, TellsWhichOfTwoLibrariesLayThere) {
  const std::string bytes = trace_of_a_plugin_and_its_successor();
  ASSERT_EQ(modules_of(bytes), "/after/before/before");
  EXPECT_EQ(modules_of(from_csv(to_csv(bytes))), "/after/before/before");
}

TEST(TraceCut, TellsWhichOfTwoLibrariesLayThere) {
  const auto reader = reader_of(trace_of_a_plugin_and_its_successor());
  MadeTrace made;
  cut(*reader, *made.writer, 0, 1'000'000'000);
  EXPECT_EQ(modules_of(made.bytes), "/after/before/before");
}

}  // namespace
}  // namespace strata::trace
