#include "os/threads.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "os/table_entry.h"
#include "os/wait.h"

namespace strata::os {
namespace {

const std::uint32_t* word_of(const std::atomic<std::uint32_t>& value) {
  return reinterpret_cast<const std::uint32_t*>(&value);
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

TEST(Threads, StartsAThreadThatNoSignalInterrupts) {
  static ThreadReport report;  // the thread is detached: it may touch this for a moment longer
  ASSERT_TRUE(start_thread(report_mask, &report));
  while (report.done.load(std::memory_order_acquire) == 0) wait_on(word_of(report.done), 0);
  EXPECT_TRUE(sigismember(&report.blocked, SIGUSR1));
  EXPECT_TRUE(sigismember(&report.blocked, SIGTERM));
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGUSR1));
}

TEST(Threads, MayStartForTheProgramButNotForTheCLibraryWhichMayHoldALock) {
  std::thread([] {}).join();  // before, nothing is held
  ASSERT_FALSE(is_single_threaded());
  if (!can_find_table_entries()) GTEST_SKIP() << "nobody knows here whose code it is";
  int data;
  EXPECT_TRUE(may_start_thread(reinterpret_cast<const void*>(&word_of)));
  EXPECT_TRUE(may_start_thread(&data)) << "code that was made as the program runs is in no file";
  EXPECT_FALSE(may_start_thread(reinterpret_cast<const void*>(&::getppid)));
  EXPECT_FALSE(may_start_thread(dlsym(RTLD_DEFAULT, "_dl_mcount"))) << "the loader's";
}

std::atomic<void*> g_exit_value{nullptr};

TEST(Threads, CallsTheThreadExitHandlerWithTheThreadsValue) {
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

}  // namespace
}  // namespace strata::os
