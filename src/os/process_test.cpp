#include "os/process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "os/emulation.h"
#include "os/page_source.h"

extern "C" char** environ;

namespace strata::os {
namespace {

const std::uint32_t* word_of(const std::atomic<std::uint32_t>& value) {
  return reinterpret_cast<const std::uint32_t*>(&value);
}

TEST(Process, ClockNeverGoesBackAndMoves) {
  const std::uint64_t start = monotonic_ns();
  std::uint64_t before = start;
  while (before == start) {  // for ever, if it stands still
    const std::uint64_t now = monotonic_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(Process, ResidentBytesFollowWhatIsTouchedAndGivenBack) {
  constexpr std::size_t kBytes = 64u << 20;
  constexpr std::size_t kSlack = 4u << 20;  // the test runner's own pages, the kernel's rounding
  void* p = kernel_pages().map(kBytes);
  ASSERT_NE(p, nullptr);
  const std::size_t untouched = resident_bytes();
  ASSERT_GT(untouched, 0u);
  std::memset(p, 'x', kBytes);
  const std::size_t touched = resident_bytes();
  EXPECT_GE(touched + kSlack, untouched + kBytes);
  ASSERT_TRUE(kernel_pages().decommit(p, kBytes));
  EXPECT_LE(resident_bytes() + kBytes, touched + kSlack);
  kernel_pages().unmap(p, kBytes);
}

TEST(Process, CountsTheProcessorsItMayUse) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(processor_count(), static_cast<unsigned>(CPU_COUNT(&allowed)));
  std::thread pinned([&] {
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(processor_count(), 1u);
  });
  pinned.join();
}

TEST(Process, KnowsHowMuchAddressSpaceItMayHave) {
  if (kIsEmulated)
    GTEST_SKIP() << "the emulator sets no limit of addresses, which would be its own";
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = std::size_t{1} << 45;  // more than sanitizers reserve
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  EXPECT_EQ(address_space_limit_bytes(), std::size_t{1} << 45);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(address_space_limit_bytes(), SIZE_MAX);
  }
}

TEST(Process, FindsEnvironmentVariablesByTheirWholeName) {
  setenv("STRATA_TEST_NAME", "value=with=equals", 1);
  setenv("STRATA_TEST_NAME_LONGER", "other", 1);
  setenv("STRATA_TEST_EMPTY", "", 1);
  EXPECT_STREQ(environment_variable("STRATA_TEST_NAME"), "value=with=equals");
  EXPECT_STREQ(environment_variable("STRATA_TEST_NAME_LONGER"), "other");
  EXPECT_STREQ(environment_variable("STRATA_TEST_EMPTY"), "");
  EXPECT_EQ(environment_variable("STRATA_TEST_NAM"), nullptr);
  EXPECT_EQ(environment_variable("STRATA_TEST_MISSING"), nullptr);
}

TEST(Process, ListsTheEnvironmentToItsEnd) {
  setenv("STRATA_TEST_LISTED", "1", 1);
  bool found = false;
  std::size_t count = 0;
  for (; const char* entry = environment_entry(count); ++count) {
    found |= std::strcmp(entry, "STRATA_TEST_LISTED=1") == 0;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(environ[count], nullptr);
}

TEST(Process, AnEmptyEnvironmentHasNoEntries) {
  char** kept = environ;
  environ = nullptr;
  EXPECT_EQ(environment_entry(0), nullptr);
  EXPECT_EQ(environment_variable("PATH"), nullptr);
  environ = kept;
}

TEST(Process, AppendsToAFileThatExistsOrNot) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("strata_process_test." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "out";
  errno = EDOM;
  for (const char* text : {"one\n", "two\n"}) {
    const int opened = open_to_append(path.c_str());
    ASSERT_GE(opened, 0);
    write_file(opened, text);
    close_file(opened);
  }
  EXPECT_LT(open_to_append((folder / "missing" / "out").c_str()), 0);
  EXPECT_EQ(errno, EDOM);
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "one\ntwo\n");
  std::filesystem::remove_all(folder);
}

TEST(Process, WritesAllOfATextToStandardError) {
  const std::string text(20'000, 'x');
  ::testing::internal::CaptureStderr();
  write_stderr(text);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), text);
}

TEST(Process, ASignalIsHandledUnlessSomebodyElseHandlesItAlready) {
  static int arrived = 0;
  const auto count = [](int) { ++arrived; };
  ASSERT_TRUE(handle_signal(SIGUSR2, count));
  raise(SIGUSR2);
  EXPECT_EQ(arrived, 1);
  EXPECT_FALSE(handle_signal(SIGUSR2, [](int) {})) << "taken";
  raise(SIGUSR2);
  EXPECT_EQ(arrived, 2);
  EXPECT_FALSE(handle_signal(SIGKILL, count));
  EXPECT_FALSE(handle_signal(4711, count));
  signal(SIGUSR2, SIG_DFL);
}

TEST(Process, SaysWhyThroughErrno) {
  set_errno_no_memory();
  EXPECT_EQ(errno, ENOMEM);
  set_errno_invalid();
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(error_no_memory(), ENOMEM);
  EXPECT_EQ(error_invalid(), EINVAL);
}

TEST(Process, WaitReturnsAtOnceWhenTheWordHasChanged) {
  const std::atomic<std::uint32_t> word{1};
  errno = EDOM;
  wait_on(word_of(word), 0);  // for ever, if it waited
  EXPECT_EQ(errno, EDOM);
}

TEST(Process, WaitEndsAtItsTimeout) {
  const std::atomic<std::uint32_t> word{0};
  errno = EDOM;
  wait_on(word_of(word), 0, 1'000'000);
  EXPECT_EQ(errno, EDOM);
}

TEST(Process, WakesEveryWaiter) {
  std::atomic<std::uint32_t> word{0};
  std::atomic<int> woken{0};
  std::thread waiters[4];
  for (std::thread& waiter : waiters) {
    waiter = std::thread([&] {
      while (word.load(std::memory_order_acquire) == 0) wait_on(word_of(word), 0);
      woken.fetch_add(1, std::memory_order_relaxed);
    });
  }
  word.store(1, std::memory_order_release);
  wake_all(word_of(word));
  for (std::thread& waiter : waiters) waiter.join();  // for ever, if a wake-up is lost
  EXPECT_EQ(woken.load(std::memory_order_relaxed), 4);
}

TEST(Process, WakesOneWaiterPerCall) {
  std::atomic<std::uint32_t> tickets{0};
  std::thread waiters[3];
  for (std::thread& waiter : waiters) {
    waiter = std::thread([&] {
      for (;;) {
        std::uint32_t left = tickets.load(std::memory_order_acquire);
        if (left == 0) {
          wait_on(word_of(tickets), 0);
        } else if (tickets.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) {
          return;
        }
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    tickets.fetch_add(1, std::memory_order_release);
    wake_one(word_of(tickets));
  }
  for (std::thread& waiter : waiters) waiter.join();
}

struct ThreadReport {
  std::atomic<std::uint32_t> done{0};
  sigset_t blocked;
};

void* report_mask(void* argument) {
  auto* report = static_cast<ThreadReport*>(argument);
  pthread_sigmask(SIG_SETMASK, nullptr, &report->blocked);
  report->done.store(1, std::memory_order_release);
  wake_all(word_of(report->done));
  return nullptr;
}

TEST(Process, StartsAThreadThatNoSignalInterrupts) {
  static ThreadReport report;  // the thread is detached: it may touch this for a moment longer
  ASSERT_TRUE(start_thread(report_mask, &report));
  while (report.done.load(std::memory_order_acquire) == 0) wait_on(word_of(report.done), 0);
  EXPECT_TRUE(sigismember(&report.blocked, SIGUSR1));
  EXPECT_TRUE(sigismember(&report.blocked, SIGTERM));
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGUSR1));
}

std::atomic<void*> g_exit_value{nullptr};

TEST(Process, CallsTheThreadExitHandlerWithTheThreadsValue) {
  static const bool registered = [] {  // once per process, however often this test runs
    EXPECT_FALSE(set_thread_exit_value(&g_exit_value)) << "nothing is registered yet";
    return register_thread_exit(
        [](void* value) { g_exit_value.store(value, std::memory_order_relaxed); });
  }();
  ASSERT_TRUE(registered);
  g_exit_value.store(nullptr, std::memory_order_relaxed);
  std::thread([] {}).join();
  EXPECT_EQ(g_exit_value.load(std::memory_order_relaxed), nullptr);
  int value = 0;
  std::thread([&] { EXPECT_TRUE(set_thread_exit_value(&value)); }).join();
  EXPECT_EQ(g_exit_value.load(std::memory_order_relaxed), &value);
}

std::string& fork_trace() {
  static std::string trace;
  return trace;
}

TEST(Process, RunsTheForkHandlersOnTheirSides) {
  static const bool registered =
      register_fork_handlers([] { fork_trace() += "before "; }, [] { fork_trace() += "parent"; },
                             [] { fork_trace() += "child"; });
  ASSERT_TRUE(registered);
  fork_trace().clear();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(fork_trace() == "before child" ? 0 : 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fork_trace(), "before parent");
}

void leave_with_a_handler() {
  if (!register_exit_handler([] { write_stderr("the handler ran"); })) _exit(3);
  exit(0);
}

TEST(ProcessDeathTest, RunsTheExitHandlerAtNormalExit) {
  EXPECT_EXIT(leave_with_a_handler(), ::testing::ExitedWithCode(0), "the handler ran");
}

TEST(ProcessDeathTest, AbortsTheProcess) {
  EXPECT_EXIT(abort_process(), ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace strata::os
