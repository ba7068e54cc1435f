#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "shared/refusal_test.h"
#include "shared/trace/made_trace_test.h"

namespace strata::trace {
namespace {

using testing::ElementsAre;
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

/// The bytes that so many blocks take, with sizes as they are drawn.
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
  // At most seven blocks are as they were before.
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
  EXPECT_THROW(Reader("/nowhere/to.be.found"), TraceError);
  EXPECT_THROW(Reader("/"), TraceError);
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

/// The trace with the first block of this kind changed, and its checksums made right again.
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
