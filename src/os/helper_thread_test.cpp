#include "os/helper_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>

#include "os/wait.h"

namespace strata::os {
namespace {

const std::uint32_t* word_of(const std::atomic<std::uint32_t>& value) {
  return reinterpret_cast<const std::uint32_t*>(&value);
}

/// The threads are detached: they may touch this for a moment longer.
struct Report {
  std::atomic<std::uint32_t> done{0};
  sigset_t blocked;
  bool waited = false;
  HelperThread thread{write, this};

  static void write(void* argument) noexcept {
    auto* report = static_cast<Report*>(argument);
    pthread_sigmask(SIG_SETMASK, nullptr, &report->blocked);
    report->waited = HelperThread::wait(word_of(report->done), 0, 1);
    report->done.store(1, std::memory_order_release);
    wake_all(word_of(report->done));
  }
  void await() const {
    while (done.load(std::memory_order_acquire) == 0) wait_on(word_of(done), 0);
  }
};

TEST(HelperThread, IsInterruptedByNoSignal) {
  static Report report;
  ASSERT_TRUE(report.thread.start());
  report.await();
  EXPECT_TRUE(sigismember(&report.blocked, SIGUSR1));
  EXPECT_TRUE(sigismember(&report.blocked, SIGTERM));
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGUSR1));
}

TEST(HelperThread, GoesOnWhileTheProgramHasThreads) {
  static Report report;
  HelperThread::note_end();  // as if: it looks, and finds that this thread has not ended
  ASSERT_TRUE(report.thread.start());
  report.await();
  EXPECT_TRUE(report.waited);
  HelperThread::reset_after_fork();
}

TEST(HelperThread, TakesASmallStackWhereTheUsualOneHasNoRoom) {
  static Report report;
  pthread_attr_t before;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{1} << 48);  // more than there are addresses
  if (pthread_setattr_default_np(&attributes) != 0) GTEST_SKIP() << "the usual one has a bound";
  const bool is_started = report.thread.start();
  pthread_setattr_default_np(&before);
  ASSERT_TRUE(is_started);
  report.await();
}

}  // namespace
}  // namespace strata::os
