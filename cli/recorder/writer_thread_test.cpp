#include "recorder/writer_thread.h"

#include <gtest/gtest.h>

#include <atomic>

#include "os/wait.h"

namespace strata::recorder {
namespace {

/// What the rounds did. A hidden thread has no thread-local variables, so they do no more.
struct Rounds {
  std::atomic<std::uint32_t> count{0};
  std::atomic<std::uint32_t> with_flush{0};
};

std::uint64_t count_round(void* context, std::uint32_t requests) noexcept {
  auto& rounds = *static_cast<Rounds*>(context);
  if ((requests & WriterThread::kFlush) != 0)
    rounds.with_flush.fetch_add(1, std::memory_order_relaxed);
  rounds.count.fetch_add(1, std::memory_order_release);
  return (requests & WriterThread::kEnd) != 0 ? WriterThread::kNoFurtherRound
                                              : WriterThread::kLongestSleepNs;
}

/// The thread uses it until it ends, so it is never freed.
WriterThread& running_thread(Rounds& rounds) {
  auto* const thread = new WriterThread;
  thread->announce();
  EXPECT_TRUE(thread->start(count_round, &rounds, 2));
  return *thread;
}

TEST(WriterThread, AnswersARequestWithARoundThatSawIt) {
  static Rounds rounds;
  WriterThread& thread = running_thread(rounds);
  for (std::uint32_t asked = 1; asked <= 100; ++asked) {
    thread.wake();  // a round that may see no request
    thread.ask(WriterThread::kFlush);
    EXPECT_EQ(rounds.with_flush.load(std::memory_order_relaxed), asked);
  }
  thread.ask(WriterThread::kEnd);
  EXPECT_FALSE(thread.is_running());
}

TEST(WriterThread, DoesNoRoundWhileItIsHeld) {
  static Rounds rounds;
  WriterThread& thread = running_thread(rounds);
  thread.hold();
  const std::uint32_t before = rounds.count.load(std::memory_order_acquire);
  thread.wake();
  const std::uint32_t never = 0;
  os::wait_on(&never, 0, 20'000'000);
  EXPECT_EQ(rounds.count.load(std::memory_order_acquire), before);
  thread.release();
  thread.ask(WriterThread::kEnd);
  EXPECT_GT(rounds.count.load(std::memory_order_acquire), before);
}

TEST(WriterThread, LetsNobodyWaitForOneThatIsNotThere) {
  WriterThread thread;
  thread.ask(WriterThread::kFlush);
  thread.announce();
  thread.forget();
  thread.ask(WriterThread::kEnd);
  EXPECT_FALSE(thread.is_running());
}

}  // namespace
}  // namespace strata::recorder
