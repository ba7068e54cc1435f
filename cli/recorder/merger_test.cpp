#include "recorder/merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "recorder/system.h"
#include "shared/trace/made_trace_test.h"

namespace strata::recorder {
namespace {

using testing::ElementsAre;
using trace::Event;
using trace::Operation;

constexpr std::uint32_t kNoSuchThread = 1u << 30;  // above the largest ID of the kernel

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

/// A merger with its streams, and the trace that it fills.
class MergerTest : public testing::Test {
 protected:
  void SetUp() override {
    clock_.prepare();
    const std::uint64_t first = clock_.count();
    while (clock_.count() - first < 1'000'000) {  // long enough to measure the clock
    }
    clock_.measure();
    stacks_.use(zeros(StackTree::kBytes));
    merger_.use(zeros(Merger::kBytes), zeros(Modules::kBytes), *made_.writer);
    streams_.use(zeros(StreamTable::kBytes));
    merger_.begin();
    now_ = clock_.count();
  }
  void TearDown() override {
    merger_.forget_all();
    for (const auto& [memory, bytes] : maps_) unmap_memory(memory, bytes);
  }

  Stream& thread() { return *streams_.take_stream(static_cast<std::uint32_t>(gettid())); }

  /// Records a call `after` counts of the clock after the beginning.
  void note(Stream& stream, std::uint64_t after, Operation operation, std::uintptr_t address,
            std::uint32_t size = 0, RecordKind kind = RecordKind::kCall) {
    append(stream, {Record::pack(kind, operation, at(address), 0), now_ + after, size, 0});
  }
  void append(Stream& stream, const Record& record) {
    Chunk* chunk = stream.current;
    if (chunk->published.load(std::memory_order_relaxed) == Chunk::kRecords) {
      ASSERT_TRUE(streams_.add_chunk(stream));
      chunk = stream.current;
    }
    const std::uint32_t used = chunk->published.load(std::memory_order_relaxed);
    chunk->records[used] = record;
    chunk->published.store(used + 1, std::memory_order_release);
  }

  /// The events of all that was recorded. Ends the trace.
  std::vector<Event> events() {
    merger_.settle();
    merger_.drain();
    return read();
  }
  std::vector<Event> read() {
    made_.writer->end("reason=exit\n");
    reader_ = trace::reader_of(made_.bytes);
    return trace::events_of(*reader_);
  }

  StreamTable streams_;
  StackTree stacks_;
  Clock clock_;
  Merger merger_{streams_, stacks_, clock_};
  trace::MadeTrace made_;
  std::unique_ptr<trace::Reader> reader_;
  std::uint64_t now_ = 0;

 private:
  char* zeros(std::size_t bytes) {
    maps_.emplace_back(map_memory(bytes), bytes);
    if (maps_.back().first == nullptr) throw std::bad_alloc();
    return static_cast<char*>(maps_.back().first);
  }
  std::vector<std::pair<void*, std::size_t>> maps_;
};

MATCHER_P3(Is, operation, thread, object, "") {
  const std::uint64_t own = trace::begins_object(arg.operation) ? arg.object : arg.ended;
  return arg.operation == operation && arg.thread == thread && own == std::uint64_t{object};
}

TEST_F(MergerTest, OrdersTheCallsOfAllThreadsByTime) {
  Stream& one = thread();
  Stream& two = thread();
  note(one, 10, Operation::kMalloc, 0x100, 7);
  note(one, 40, Operation::kFree, 0x200);
  note(two, 20, Operation::kMalloc, 0x200, 8);
  note(two, 30, Operation::kFree, 0x100);
  EXPECT_THAT(events(), ElementsAre(Is(Operation::kMalloc, 0u, 0u), Is(Operation::kMalloc, 1u, 1u),
                                    Is(Operation::kFree, 1u, 0u), Is(Operation::kFree, 0u, 1u)));
}

TEST_F(MergerTest, LeavesWhatIsInTheFutureForLater) {
  Stream& stream = thread();
  note(stream, 0, Operation::kMalloc, 0x100);
  append(stream, {Record::pack(RecordKind::kCall, Operation::kFree, at(0x100), 0),
                  clock_.count() + (std::uint64_t{1} << 40), 0, 0});
  merger_.settle();
  EXPECT_EQ(merger_.drain(), 1u);
  EXPECT_EQ(merger_.drain(), 0u);
}

TEST_F(MergerTest, HoldsAnAllocationBackUntilAnotherThreadHasFreedItsAddress) {
  Stream& one = thread();
  Stream& two = thread();
  note(one, 0, Operation::kMalloc, 0x100);
  note(two, 10, Operation::kMalloc, 0x100);  // its clock was read early
  note(one, 20, Operation::kFree, 0x100);
  EXPECT_THAT(events(), ElementsAre(Is(Operation::kMalloc, 0u, 0u), Is(Operation::kFree, 0u, 0u),
                                    Is(Operation::kMalloc, 1u, 1u)));
}

TEST_F(MergerTest, RecordsAnObjectAsLostWhoseAddressIsAllocatedAgain) {
  Stream& stream = thread();
  note(stream, 0, Operation::kMalloc, 0x100);
  note(stream, 10, Operation::kMalloc, 0x100);
  EXPECT_THAT(events(), ElementsAre(Is(Operation::kMalloc, 0u, 0u), Is(Operation::kLost, 0u, 0u),
                                    Is(Operation::kMalloc, 0u, 1u)));
}

TEST_F(MergerTest, KnowsNothingOfAnAddressThatItNeverSaw) {
  note(thread(), 0, Operation::kFree, 0x100);
  EXPECT_THAT(events(), ElementsAre(Is(Operation::kFree, 0u, trace::kUnknownObject)));
}

TEST_F(MergerTest, LetsTheObjectOfAFailedReallocLiveOn) {
  Stream& stream = thread();
  note(stream, 0, Operation::kMalloc, 0x100);
  note(stream, 10, Operation::kRealloc, 0x100, 50, RecordKind::kReallocBegin);
  note(stream, 20, Operation::kRealloc, 0, 50, RecordKind::kReallocEnd);
  note(stream, 30, Operation::kRealloc, 0x100, 60, RecordKind::kReallocBegin);
  note(stream, 40, Operation::kRealloc, 0x180, 60, RecordKind::kReallocEnd);
  note(stream, 50, Operation::kFree, 0x180);
  const std::vector<Event> found = events();
  EXPECT_THAT(found, ElementsAre(Is(Operation::kMalloc, 0u, 0u),
                                 Is(Operation::kRealloc, 0u, trace::kNoObject),
                                 Is(Operation::kRealloc, 0u, 1u), Is(Operation::kFree, 0u, 1u)));
  EXPECT_EQ(found.at(1).ended, trace::kNoObject);
  EXPECT_EQ(found.at(2).ended, 0u);
}

TEST_F(MergerTest, ReadsASizeThatNeedsASecondRecord) {
  constexpr std::uint64_t kSize = std::uint64_t{5} << 32;
  Stream& stream = thread();
  note(stream, 0, Operation::kMalloc, 0x100, Record::kSizeFollows);
  append(stream, {Record::pack(RecordKind::kSize, Operation::kMalloc, nullptr, 0), kSize, 0, 0});
  note(stream, 10, Operation::kFree, 0x100);
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].size_bytes, kSize);
}

TEST_F(MergerTest, FollowsAStreamFromChunkToChunk) {
  Stream& stream = thread();
  constexpr std::size_t kCalls = 3 * Chunk::kRecords + 5;
  for (std::size_t i = 0; i < kCalls; ++i) note(stream, i, Operation::kMalloc, 16 * (i + 1));
  EXPECT_EQ(events().size(), kCalls);
}

TEST_F(MergerTest, WritesStacksBeforeTheEventsThatNeedThem) {
  const std::uintptr_t frames[] = {0x1000, 0x2000};
  const std::uint32_t stack = stacks_.node_of(frames, 2);
  append(thread(),
         {Record::pack(RecordKind::kCall, Operation::kMalloc, at(0x100), 0), now_, 8, stack});
  const std::vector<Event> found = events();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].stack, stack);
  EXPECT_EQ(reader_->stacks().at(stack).return_address, 0x1000u);
}

TEST_F(MergerTest, NamesAThreadOnceItHasAnEvent) {
  Stream& stream = thread();
  merger_.write_names();
  note(stream, 0, Operation::kMalloc, 0x100);
  merger_.settle();
  merger_.drain();
  merger_.write_names();
  merger_.write_names();
  read();
  ASSERT_EQ(reader_->threads().size(), 1u);
  EXPECT_EQ(reader_->threads()[0].id, static_cast<std::uint64_t>(gettid()));
}

TEST_F(MergerTest, CollectsTheStreamOfAnEndedThreadOnceItIsRead) {
  Stream& stream = *streams_.take_stream(kNoSuchThread);
  const auto process = static_cast<std::uint64_t>(getpid());
  note(stream, 0, Operation::kMalloc, 0x100);
  merger_.collect_ended_threads(process);
  EXPECT_EQ(stream.state.load(std::memory_order_relaxed), Stream::kUsed);
  merger_.settle();
  merger_.drain();
  merger_.collect_ended_threads(process);
  EXPECT_EQ(stream.state.load(std::memory_order_relaxed), Stream::kFree);
}

}  // namespace
}  // namespace strata::recorder
