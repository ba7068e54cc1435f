#include "os/helper_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <thread>

#include "os/child_in_test.h"
#include "os/emulation.h"
#include "os/wait.h"

namespace strata::os {
namespace {

const std::uint32_t* word_of(const std::atomic<std::uint32_t>& value) {
  return reinterpret_cast<const std::uint32_t*>(&value);
}

/// Another one at each call, and kept: the threads are detached, and may touch theirs for a moment
/// longer.
template <typename Kept>
Kept& kept() {
  static auto* const all = new std::list<Kept>;
  return all->emplace_back();
}

struct Report {
  std::atomic<std::uint32_t> done{0};
  sigset_t blocked;
  int scheduler = -1;
  cpu_set_t processors;
  char name[16] = "";
  bool waited = false;
  HelperThread thread{write, this};

  static void write(void* argument) noexcept {
    auto* report = static_cast<Report*>(argument);
    pthread_sigmask(SIG_SETMASK, nullptr, &report->blocked);
    report->scheduler = sched_getscheduler(0);
    sched_getaffinity(0, sizeof report->processors, &report->processors);
    prctl(PR_GET_NAME, report->name);
    report->waited = HelperThread::wait(report->done, 0, 1);
    report->done.store(1, std::memory_order_release);
    wake_all(word_of(report->done));
  }
  void await() const {
    while (done.load(std::memory_order_acquire) == 0) wait_on(word_of(done), 0);
  }
};

TEST(HelperThread, IsInterruptedByNoSignal) {
  auto& report = kept<Report>();
  ASSERT_TRUE(report.thread.start());
  report.await();
  EXPECT_TRUE(sigismember(&report.blocked, SIGUSR1));
  EXPECT_TRUE(sigismember(&report.blocked, SIGTERM));
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGUSR1));
}

TEST(HelperThread, LeavesTheProgramTheSignalsThatItWaitsFor) {
  if (kIsEmulated) GTEST_SKIP() << "the emulator lacks the last signals";
  auto& report = kept<Report>();
  sigset_t awaited;
  sigset_t before;
  sigemptyset(&awaited);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaddset(&awaited, signal);
  pthread_sigmask(SIG_BLOCK, &awaited, &before);
  ASSERT_EQ(kill(getpid(), SIGRTMIN), 0);  // ends the process where it is let in
  ASSERT_TRUE(report.thread.start());
  report.await();
  ASSERT_EQ(kill(getpid(), SIGRTMAX), 0);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal)
    EXPECT_TRUE(sigismember(&report.blocked, signal)) << signal;
  EXPECT_EQ(sigwaitinfo(&awaited, nullptr), SIGRTMIN);
  EXPECT_EQ(sigwaitinfo(&awaited, nullptr), SIGRTMAX);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(HelperThread, GoesOnWhileTheProgramHasThreads) {
  auto& report = kept<Report>();
  HelperThread::note_end();  // as if: it looks, and finds that this thread has not ended
  ASSERT_TRUE(report.thread.start());
  report.await();
  EXPECT_TRUE(report.waited);
  HelperThread::reset_after_fork();
}

TEST(HelperThread, IsNotScheduledAsTheThreadThatStartsIt) {
  if (prctl(PR_GET_SECCOMP) != 0) GTEST_SKIP() << "a filter may be there";
  auto& report = kept<Report>();
  cpu_set_t of_program;
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof of_program, &of_program), 0);
  bool is_real_time = false;
  std::thread([&report, &is_real_time] {
    prctl(PR_SET_NAME, "worker");
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const sched_param lowest{.sched_priority = 1};
    is_real_time = sched_setscheduler(0, SCHED_FIFO, &lowest) == 0;  // not everyone may
    ASSERT_TRUE(report.thread.start());
  }).join();
  report.await();
  EXPECT_TRUE(CPU_EQUAL(&report.processors, &of_program));
  EXPECT_STREQ(report.name, "strata");
  EXPECT_TRUE(!is_real_time || report.scheduler == SCHED_OTHER) << report.scheduler;
}

/// Sleeps without a limit, and counts how often it wakes up.
struct Sleeper {
  std::atomic<std::uint32_t> word{0};
  std::atomic<std::uint32_t> returns{0};
  std::atomic<bool> is_done{false};
  HelperThread thread{sleep, this};

  static void sleep(void* argument) noexcept {
    auto* sleeper = static_cast<Sleeper*>(argument);
    while (sleeper->word.load(std::memory_order_acquire) == 0) {
      HelperThread::wait_for_change(sleeper->word, 0);
      ++sleeper->returns;
    }
    sleeper->is_done = true;
  }
};

TEST(HelperThread, SleepsUntilTheWordChangesOrTheFirstThreadEnds) {
  auto& sleeper = kept<Sleeper>();
  ASSERT_TRUE(sleeper.thread.start());
  usleep(1'300'000);
  EXPECT_EQ(sleeper.returns, 0u);
  HelperThread::note_end();
  while (sleeper.returns == 0) usleep(1000);
  HelperThread::reset_after_fork();
  sleeper.word.store(1, std::memory_order_release);
  HelperThread::wake_all();
  while (!sleeper.is_done) usleep(1000);
}

/// Runs in a child: asks as often as it can whether only helpers are left.
struct Looker {
  std::atomic<bool> has_left{false};
  HelperThread thread{look, this};

  static void look(void* argument) noexcept {
    const std::atomic<std::uint32_t> never_changes{0};
    while (HelperThread::wait(never_changes, 0, 1)) {
    }
    static_cast<Looker*>(argument)->has_left = true;
  }
};

struct Begun {
  std::atomic<std::uint32_t> count{0};
  HelperThread thread{count_one, this};

  static void count_one(void* argument) noexcept {
    ++static_cast<Begun*>(argument)->count;
    usleep(50);
  }
};

/// The last of the program's threads starts helpers while a helper asks who is left.
void* start_helpers(void*) {
  static Looker looker;
  static Begun begun;
  bool is_good = looker.thread.start();
  for (std::uint32_t i = 1; is_good && i <= 3000; ++i) {
    is_good = begun.thread.start() && !looker.has_left;
    while (is_good && begun.count != i) sched_yield();
    usleep(100 + i % 100);  // it has ended at times
  }
  _exit(is_good ? 0 : 1);
}

TEST(HelperThread, GoesOnWhileAThreadOfTheProgramStartsOthers) {
#ifdef __SANITIZE_THREAD__  // which ends a child that starts a thread
  GTEST_SKIP();
#endif
  const int status = status_in_child([&] {
    HelperThread::reset_after_fork();
    pthread_t thread;
    if (pthread_create(&thread, nullptr, start_helpers, nullptr) != 0) return 2;
    HelperThread::note_end();
    // Ends this thread only, without the exit handlers that pthread_exit() may run.
    return static_cast<int>(syscall(SYS_exit, 0));
  });
  EXPECT_EQ(status, 0);
}

TEST(HelperThread, DoesNotWaitForEverWhereItCannotSeeWhoIsLeft) {
  constexpr int kIsRefused = 77;
  const int status = status_in_child([&] {
    HelperThread::reset_after_fork();
    unshare(CLONE_NEWUSER);  // then anyone may change the root, if the system lets anyone do this
    if (chroot(::testing::TempDir().c_str()) != 0) return kIsRefused;  // where no /proc is
    HelperThread::note_end();
    const std::atomic<std::uint32_t> never_changes{0};
    if (!HelperThread::wait(never_changes, 0, 1)) return 2;  // which has an end
    return HelperThread::wait_for_change(never_changes, 0) ? 1 : 0;
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == kIsRefused) GTEST_SKIP() << "no other root";
  EXPECT_EQ(status, 0);
}

TEST(HelperThread, GoesOnWhereItCannotSeeForAWhileWhoIsLeft) {
  const int status = status_in_child([&] {
    HelperThread::reset_after_fork();
    const rlimit no_files{};
    if (setrlimit(RLIMIT_NOFILE, &no_files) != 0) return 2;
    HelperThread::note_end();
    const std::atomic<std::uint32_t> never_changes{0};
    return HelperThread::wait_for_change(never_changes, 0) ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

TEST(HelperThread, TakesASmallStackWhereTheUsualOneHasNoRoom) {
  auto& report = kept<Report>();
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
