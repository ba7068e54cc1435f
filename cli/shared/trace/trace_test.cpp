#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "shared/refusal_test.h"
#include "shared/trace/made_trace_test.h"

namespace strata::trace {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string refusal_of(const std::string& bytes) {
  return refused_with<TraceError>([&] {
    const auto reader = reader_of(bytes);
    events_of(*reader);
  });
}

TEST(Trace, GivesBackRandomEvents) {
  const unsigned seed = test_seed();
  for (unsigned round = 0; round < 5; ++round) {
    MadeTrace made;
    const std::vector<Event> added =
        add_random(*made.writer, seed + round, 40000 * (round + 1) / 2);
    ASSERT_TRUE(made.writer->end("reason=exit\n"));
    const auto reader = reader_of(made.bytes);
    const std::vector<Event> read = events_of(*reader);
    ASSERT_EQ(read.size(), added.size());
    for (std::size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], added[i]) << "event " << i;
    EXPECT_EQ(reader->ending().at("reason"), "exit");
    EXPECT_FALSE(reader->is_cut());
    EXPECT_EQ(reader->bytes(), made.bytes.size());
  }
}

/// The bytes of so many blocks, with sizes from draw_size().
std::size_t bytes_of_blocks(MadeTrace& made, unsigned blocks,
                            const std::function<std::uint64_t()>& draw_size) {
  const std::size_t before = made.bytes.size();
  Event event;
  for (unsigned i = 0; i < blocks * kMostEvents; ++i) {
    event.object = made.writer->next_object();
    event.size_bytes = draw_size();
    made.writer->add(event);
  }
  made.writer->flush();
  return made.bytes.size() - before;
}

TEST(Trace, CompressesAColumnAgainThatWasRandomForAWhile) {
  MadeTrace made;
  std::mt19937 random(test_seed());
  const std::size_t regular = bytes_of_blocks(made, 20, [] { return 100; });
  const std::size_t irregular = bytes_of_blocks(made, 20, [&] { return random() % 128; });
  unsigned i = 0;
  const std::size_t in_turns = bytes_of_blocks(made, 20, [&] { return ++i / 1000 % 128; });
  EXPECT_GT(irregular, 20 * regular);
  // At most seven blocks are stored uncompressed.
  EXPECT_LT(in_turns, irregular / 2);
  made.writer->end("reason=exit\n");
  const auto reader = reader_of(made.bytes);
  EXPECT_EQ(events_of(*reader).size(), 60 * kMostEvents);
}

TEST(Trace, HasTheChecksumOfItsFormat) {
  EXPECT_EQ(checksum("123456789", 9), 0xe3069283u);  // the check value of CRC-32C
  EXPECT_EQ(checksum("", 0), 0u);
  EXPECT_EQ(checksum("12345678901234567890", 20), 0xa8b4a6b9u);
}

TEST(Trace, GivesBackEveryKindOfBlock) {
  const auto reader = reader_of(small_trace());
  const std::vector<Event> events = events_of(*reader);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].ended, kUnknownObject);
  EXPECT_EQ(reader->process().at("command"), "a b=c");
  EXPECT_THAT(reader->threads(), ElementsAre(Thread{0, 4711, "main thread"}));
  EXPECT_THAT(reader->modules(), ElementsAre(Module{0x1000, 0x2000, 0, "abcd", "/bin/one"},
                                             Module{0x8000, 0x9000, 0x1000, "", "/two, three"}));
  EXPECT_THAT(reader->stacks(),
              ElementsAre(StackNode{}, StackNode{0, 0x1010}, StackNode{1, 0x8020}));
  EXPECT_EQ(reader->module_of(1), 0u);
  EXPECT_EQ(reader->module_of(2), 1u);
  EXPECT_EQ(reader->dropped_events(), 3u);
}

TEST(Trace, TakesTheModuleThatWasToldLast) {
  MadeTrace made;
  made.writer->add_text(BlockKind::kModules, "1000 3000 0 - /before\n");
  made.writer->add_stack({0, 0x1010});
  made.writer->add_text(BlockKind::kModules, "1000 2000 0 - /after\n");
  made.writer->add_stack({1, 0x1010});
  made.writer->add_stack({2, 0x2010});
  made.writer->end("reason=exit\n");
  const auto reader = reader_of(made.bytes);
  events_of(*reader);
  const auto path_of = [&](std::uint32_t stack) {
    return reader->modules()[reader->module_of(stack)].path;
  };
  EXPECT_EQ(path_of(1), "/before");
  EXPECT_EQ(path_of(2), "/after");
  EXPECT_EQ(path_of(3), "/before");
}

TEST(Trace, KeepsTheStackThatCameMany) {
  MadeTrace made;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < 3 * kMostNodes / 2; ++i) last = made.writer->add_stack({last, i});
  made.writer->flush();
  const auto reader = reader_of(made.bytes);
  events_of(*reader);
  ASSERT_EQ(reader->stacks().size(), 3 * kMostNodes / 2 + 1);
  EXPECT_EQ(reader->stacks().back(), (StackNode{last - 1, 3 * kMostNodes / 2 - 1}));
}

TEST(Trace, KeepsStacksWhoseAddressesLieFarApart) {
  MadeTrace made;
  std::mt19937_64 random(test_seed());
  std::vector<std::uint64_t> addresses(kMostNodes);
  for (std::uint64_t& address : addresses) {
    address = random();
    made.writer->add_stack({0, address});
  }
  made.writer->flush();
  const auto reader = reader_of(made.bytes);
  events_of(*reader);
  ASSERT_EQ(reader->stacks().size(), 1 + addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    ASSERT_EQ(reader->stacks()[1 + i].return_address, addresses[i]) << i;
  }
}

TEST(Trace, KeepsLinesThatEndWhereABlockDoes) {
  for (const std::size_t length : {kColumnBytes - 1, kColumnBytes, kColumnBytes + 1}) {
    const std::string value(length - std::strlen("a=1\nb=\n"), 'x');
    MadeTrace made;
    made.writer->add_text(BlockKind::kProcess, "a=1\nb=" + value + "\nc=1\n");
    const auto reader = reader_of(made.bytes);
    events_of(*reader);
    EXPECT_EQ(reader->process(), (Properties{{"a", "1"}, {"b", value}, {"c", "1"}})) << length;
  }
}

TEST(Trace, KeepsTextThatCompressesToItsOwnLength) {
  std::mt19937 random(test_seed());
  std::string value;
  for (int i = 0; i < 100; ++i) value += static_cast<char>(128 + random() % 128);
  // Each text repeats one byte more than the last.
  for (std::size_t repeated = 0; repeated < 60; ++repeated) {
    const std::string text = value + value.substr(0, repeated);
    MadeTrace made;
    made.writer->add_text(BlockKind::kProcess, "a=" + text + "\n");
    const auto reader = reader_of(made.bytes);
    events_of(*reader);
    ASSERT_EQ(reader->process().at("a"), text);
  }
}

TEST(Trace, CanBeReadUpToItsLastWholeBlockWhereverItIsCut) {
  const std::string whole = small_trace();
  std::size_t seen = 0;
  for (std::size_t size = sizeof(FileHeader); size < whole.size(); ++size) {
    const auto reader = reader_of(whole.substr(0, size));
    const std::vector<Event> events = events_of(*reader);
    EXPECT_TRUE(reader->is_cut()) << "at byte " << size;
    EXPECT_GE(events.size(), seen) << "at byte " << size;
    seen = events.size();
  }
  EXPECT_EQ(seen, 3u);
}

TEST(Trace, RefusesAHeaderThatIsCut) {
  const std::string whole = small_trace();
  EXPECT_THAT(refusal_of(""), HasSubstr("is not a trace: it is empty"));
  for (std::size_t size = 1; size < sizeof(FileHeader); ++size) {
    EXPECT_THAT(refusal_of(whole.substr(0, size)),
                HasSubstr("ends in its header, at byte " + std::to_string(size)));
  }
}

TEST(Trace, RefusesAnyByteThatIsDamagedAndNamesThePlace) {
  const std::string whole = small_trace();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      EXPECT_THAT(refusal_of(damaged), HasSubstr("byte")) << "byte " << at << ", bit " << bit;
    }
  }
}

TEST(Trace, RefusesFilesOfOthers) {
  EXPECT_EQ(refusal_of("#!/bin/sh\necho this is quite another file\n"),
            "'made' is not a trace: it does not begin as one (byte 0)");
  EXPECT_THAT(
      refusal_of("\x1f\x8b\x08 and more"),
      EndsWith("it looks like a heap profile, which strata profile and strata report read"));
  EXPECT_THAT(refusal_of("{\n  \"schema\": \"strata-results/1\",\n"),
              EndsWith("it looks like results, which strata report reads"));
  EXPECT_EQ(refusal_of("{\n  \"name\": \"a package of others\",\n"),
            "'made' is not a trace: it does not begin as one (byte 0)");
  EXPECT_THROW(Reader("/nowhere/to.be.found"), TraceError);
  try {
    Reader("/");
    ADD_FAILURE() << "a folder was taken for a trace";
  } catch (const TraceError& error) {
    EXPECT_STREQ(error.what(), "the trace '/' cannot be read: Is a directory");
  }
  EXPECT_THAT(refusal_of(small_trace() + small_trace()), HasSubstr("no block begins there"));
}

TEST(Trace, OfAnotherVersionIsRefusedByItsNumber) {
  std::string other = small_trace();
  FileHeader header;
  std::memcpy(&header, other.data(), sizeof header);
  header.version = 7;
  header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
  std::memcpy(other.data(), &header, sizeof header);
  EXPECT_THAT(refusal_of(other), HasSubstr("has version 7 of the format"));
}

/// The trace with a changed first block of this kind, and corrected checksums.
template <typename Change>
std::string with_changed_header(BlockKind kind, Change change) {
  std::string bytes = small_trace();
  for (std::size_t at = sizeof(FileHeader); at < bytes.size();) {
    BlockHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.kind == static_cast<std::uint32_t>(kind)) {
      change(header);
      header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
      std::memcpy(bytes.data() + at, &header, sizeof header);
      break;
    }
    at += sizeof header + header.stored_bytes;
  }
  return bytes;
}

TEST(Trace, RefusesBlocksThatDoNotFollowEachOther) {
  const auto refusal = [](BlockKind kind, auto change) {
    return refusal_of(with_changed_header(kind, change));
  };
  EXPECT_THAT(refusal(BlockKind::kEvents, [](BlockHeader& header) { header.first_object = 1; }),
              HasSubstr("do not follow"));
  EXPECT_THAT(refusal(BlockKind::kEvents, [](BlockHeader& header) { header.first_number = 1; }),
              HasSubstr("do not follow"));
  EXPECT_THAT(refusal(BlockKind::kEvents, [](BlockHeader& header) { header.count = 1; }),
              HasSubstr("bytes follow its events"));
  EXPECT_THAT(refusal(BlockKind::kEvents, [](BlockHeader& header) { header.count = 9; }),
              HasSubstr("ends too early"));
  EXPECT_THAT(refusal(BlockKind::kEvents, [](BlockHeader& header) { header.last_tick = 1; }),
              HasSubstr("times"));
  EXPECT_THAT(refusal(BlockKind::kStacks, [](BlockHeader& header) { header.first_number = 2; }),
              HasSubstr("do not follow"));
  // Changes the second of two blocks of events.
  MadeTrace made;
  made.writer->add({.time_ns = 5000, .object = 0, .size_bytes = 8});
  made.writer->flush();
  const std::size_t second = made.bytes.size();
  made.writer->add({.time_ns = 5000, .object = 1, .size_bytes = 8});
  made.writer->flush();
  BlockHeader header;
  std::memcpy(&header, made.bytes.data() + second, sizeof header);
  header.first_tick = header.last_tick = 4;
  header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
  std::memcpy(made.bytes.data() + second, &header, sizeof header);
  EXPECT_THAT(refusal_of(made.bytes), HasSubstr("do not follow"));
}

/// A changed file header.
template <typename Change>
std::string changed_file_header(Change change) {
  FileHeader header;
  std::memcpy(&header, small_trace().data(), sizeof header);
  change(header);
  header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

TEST(Trace, RefusesAHeaderThatCannotBe) {
  const auto refusal = [](auto change) { return refusal_of(changed_file_header(change)); };
  EXPECT_THAT(refusal([](FileHeader& header) { header.header_bytes = 40; }),
              HasSubstr("a header that cannot be"));
  EXPECT_THAT(refusal([](FileHeader& header) { header.tick_ns = 0; }),
              HasSubstr("a header that cannot be"));
  EXPECT_THAT(refusal([](FileHeader& header) { header.tick_ns = kMostNanoseconds + 1; }),
              HasSubstr("a header that cannot be"));
}

/// A trace with one block and correct checksums. `header` has the block's kind and numbers.
std::string with_block(BlockHeader header, const std::string& body) {
  header.magic = kBlockMagic;
  header.stored_bytes = static_cast<std::uint32_t>(body.size());
  header.body_checksum = checksum(body.data(), body.size());
  header.checksum = checksum(&header, sizeof header - sizeof header.checksum);
  return small_trace().substr(0, sizeof(FileHeader)) +
         std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

/// A body with these columns, uncompressed.
std::string body_of(const std::vector<std::string>& columns) {
  std::string sizes;
  std::string bytes;
  for (const std::string& column : columns) {
    const auto size = static_cast<std::uint32_t>(column.size());
    const ColumnSize both{size, size};
    sizes.append(reinterpret_cast<const char*>(&both), sizeof both);
    bytes += column;
  }
  return sizes + bytes;
}

BlockHeader header_of(BlockKind kind, std::uint32_t count = 0, std::uint64_t first = 0) {
  BlockHeader header{};
  header.kind = static_cast<std::uint32_t>(kind);
  header.count = count;
  header.first_number = first;
  return header;
}

TEST(Trace, RefusesColumnsThatCannotBe) {
  const auto refusal = [](const std::string& body) {
    return refusal_of(with_block(header_of(BlockKind::kProcess), body));
  };
  const auto sizes = [](std::uint32_t raw, std::uint32_t stored) {
    const ColumnSize size{raw, stored};
    return std::string(reinterpret_cast<const char*>(&size), sizeof size);
  };
  EXPECT_THAT(refusal("short"), HasSubstr("shorter than the table of its columns"));
  EXPECT_THAT(refusal(sizes(2, 2) + "x"), HasSubstr("the size of column 0 cannot be"));
  EXPECT_THAT(refusal(sizes(kColumnBytes + 1, 1) + "x"),
              HasSubstr("the size of column 0 cannot be"));
  EXPECT_THAT(refusal(sizes(100, 4) + "junk"), HasSubstr("column 0 cannot be decompressed"));
  EXPECT_THAT(refusal(body_of({"a=1\n"}) + "x"), HasSubstr("bytes follow its columns"));
}

TEST(Trace, RefusesTextThatItDoesNotUnderstand) {
  const auto refusal = [](BlockKind kind, const char* text) {
    return refusal_of(with_block(header_of(kind), body_of({text})));
  };
  constexpr const char* kRefusal = "its text is not understood";
  for (const char* text : {"name\n", "=value\n"}) {
    EXPECT_THAT(refusal(BlockKind::kProcess, text), HasSubstr(kRefusal)) << text;
  }
  EXPECT_THAT(refusal(BlockKind::kEnd, ""), HasSubstr(kRefusal));
  for (const char* text : {"main\n", "0 x main\n"}) {
    EXPECT_THAT(refusal(BlockKind::kThreads, text), HasSubstr(kRefusal)) << text;
  }
  for (const char* text : {"1000 2000 - /file\n", "2000 1fff 0 - /file\n"}) {
    EXPECT_THAT(refusal(BlockKind::kModules, text), HasSubstr(kRefusal)) << text;
  }
  EXPECT_THAT(refusal(BlockKind::kDropped, "events=-1\n"), HasSubstr(kRefusal));
}

TEST(Trace, RefusesStacksThatCannotBe) {
  const auto refusal = [](std::uint32_t count, const std::string& parents,
                          const std::string& addresses) {
    return refusal_of(
        with_block(header_of(BlockKind::kStacks, count, 1), body_of({parents, addresses})));
  };
  EXPECT_THAT(refusal(1, "\1", "\2"), HasSubstr("accepted"));
  const std::string too_many(kMostNodes + 1, '\1');
  EXPECT_THAT(refusal(kMostNodes + 1, too_many, too_many), HasSubstr("do not follow"));
  EXPECT_THAT(refusal(1, std::string(1, '\0'), "\2"), HasSubstr("a stack has no caller"));
  EXPECT_THAT(refusal(1, "\2", "\2"), HasSubstr("a stack has no caller"));
  EXPECT_THAT(refusal(1, "\1\1", "\2"), HasSubstr("bytes follow its stacks"));
  EXPECT_THAT(refusal(1, "\1", "\2\2"), HasSubstr("bytes follow its stacks"));
}

/// The columns of one event.
struct RawEvent {
  unsigned tag;
  std::string threads = {};
  std::string times = {};
  std::string sizes = {};
  std::string alignments = {};
  std::string ends = {};
  std::string stacks = {};
};

std::string refusal_of_event(const RawEvent& event, std::uint64_t first_tick = 0) {
  BlockHeader header = header_of(BlockKind::kEvents, 1);
  header.first_tick = header.last_tick = first_tick;
  return refusal_of(with_block(
      header, body_of({std::string(1, static_cast<char>(event.tag)), event.threads, event.times,
                       event.sizes, event.alignments, event.ends, event.stacks})));
}

/// Encodes a number of a column.
std::string number(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

TEST(Trace, RefusesEventsThatCannotBe) {
  constexpr auto kMalloc = static_cast<unsigned>(Operation::kMalloc) | kExpectedStack;
  constexpr auto kFree = static_cast<unsigned>(Operation::kFree);
  constexpr auto kRealloc = static_cast<unsigned>(Operation::kRealloc) | kExpectedStack;
  const std::string zero = number(0);
  EXPECT_EQ(refusal_of_event({.tag = kMalloc, .sizes = zero}), "accepted");
  EXPECT_THAT(
      refusal_of_event({.tag = kMalloc | kOtherThread, .threads = number(1), .sizes = zero}),
      HasSubstr("does not follow the others"));
  EXPECT_THAT(refusal_of_event(
                  {.tag = kMalloc | kOtherThread, .threads = number(kMostThreads), .sizes = zero}),
              HasSubstr("a thread's number is too large"));
  EXPECT_THAT(refusal_of_event(
                  {.tag = kMalloc | kLaterTime, .times = number(kMostNanoseconds), .sizes = zero}),
              HasSubstr("a time is too late"));
  EXPECT_THAT(refusal_of_event({.tag = kMalloc, .sizes = zero}, kMostNanoseconds),
              HasSubstr("a time is too late"));
  EXPECT_THAT(refusal_of_event({.tag = kFree, .ends = number(kEndOfNone)}),
              HasSubstr("an object ends that is not live"));
  EXPECT_THAT(refusal_of_event({.tag = kFree, .ends = number(1000 << 1)}),
              HasSubstr("an object ends that is not live"));
  EXPECT_THAT(refusal_of_event({.tag = kMalloc & ~kExpectedStack, .sizes = zero, .stacks = "\1"}),
              HasSubstr("a stack is not defined"));
  EXPECT_THAT(
      refusal_of_event({.tag = kMalloc | kHasAlignment, .sizes = zero, .alignments = number(64)}),
      HasSubstr("an alignment is too large"));
  EXPECT_THAT(
      refusal_of_event({.tag = kRealloc | kFailed, .sizes = zero, .ends = number(kEndOfUnknown)}),
      HasSubstr("a call failed and ended an object"));
  const std::string nines(9, '\xff');
  EXPECT_EQ(refusal_of_event({.tag = kMalloc, .sizes = nines + "\1"}), "accepted");
  EXPECT_THAT(refusal_of_event({.tag = kMalloc, .sizes = nines + "\2"}),
              HasSubstr("column 3 ends too early"));
  EXPECT_THAT(refusal_of_event({.tag = kMalloc, .sizes = nines + "\xff\1"}),
              HasSubstr("column 3 ends too early"));
}

TEST(Trace, RefusesBlocksOfEventsThatCannotBe) {
  const auto refusal = [](const BlockHeader& header, std::size_t tags) {
    return refusal_of(
        with_block(header, body_of({std::string(tags, static_cast<char>(kExpectedStack)), "", "",
                                    std::string(tags, '\0'), "", "", ""})));
  };
  EXPECT_EQ(refusal(header_of(BlockKind::kEvents, kMostEvents), kMostEvents), "accepted");
  EXPECT_THAT(refusal(header_of(BlockKind::kEvents, kMostEvents + 1), kMostEvents + 1),
              HasSubstr("do not follow"));
  EXPECT_THAT(refusal(header_of(BlockKind::kEvents), 0), HasSubstr("do not follow"));
  EXPECT_THAT(refusal(header_of(BlockKind::kEvents, 2), 1), HasSubstr("column 0 ends too early"));
}

TEST(Trace, PassesOverBlocksOfKindsYetToCome) {
  const auto reader = reader_of(
      with_changed_header(BlockKind::kDropped, [](BlockHeader& header) { header.kind = 99; }));
  EXPECT_EQ(events_of(*reader).size(), 3u);
  EXPECT_EQ(reader->dropped_events(), 0u);
}

TEST(Trace, RefusesEndsOfWhatIsNotLive) {
  MadeTrace made;
  made.writer->add({.object = 0, .size_bytes = 8});
  made.writer->add({.operation = Operation::kFree, .ended = 0});
  made.writer->flush();
  made.writer->add({.operation = Operation::kFree, .ended = 0});
  made.writer->flush();
  EXPECT_THAT(refusal_of(made.bytes), HasSubstr("an object ends that is not live"));
}

TEST(TraceWriter, StopsForGoodWhereItsBytesCannotBeKept) {
  std::size_t room = 64;
  const auto write = [](void* context, const void*, std::size_t count) {
    auto& left = *static_cast<std::size_t*>(context);
    if (count > left) return false;
    left -= count;
    return true;
  };
  const auto writer = std::make_unique<Writer>(+write, &room);
  ASSERT_TRUE(writer->begin());
  ASSERT_NE(writer->add_stack({0, 1}), 0u);             // waits for the events, and fails with them
  for (std::uint64_t i = 0; i < 40 * kMostEvents; ++i)  // more than there is memory for
    writer->add({.object = i, .size_bytes = i * i});
  EXPECT_TRUE(writer->has_failed());
  EXPECT_FALSE(writer->flush());
  EXPECT_EQ(writer->add_stack({0, 1}), 0u);
  EXPECT_EQ(room, 64 - sizeof(FileHeader));
}

TEST(TraceWriter, TakesLessThanABytePerEventOfALoop) {
  MadeTrace made;
  const std::uint32_t stack = made.writer->add_stack({0, 0x1000});
  for (std::uint64_t i = 0; i < 100000; ++i) {
    made.writer->add({.stack = stack, .object = i, .size_bytes = 48});
    made.writer->add({.operation = Operation::kFree, .ended = i});
  }
  made.writer->flush();
  EXPECT_LT(made.bytes.size(), 20000u);
}

}  // namespace
}  // namespace strata::trace
