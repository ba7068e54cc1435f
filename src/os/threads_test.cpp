#include "os/threads.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "os/table_entry.h"

namespace strata::os {
namespace {

TEST(Threads, MayStartForTheProgramButNotForTheCLibraryWhichMayHoldALock) {
  std::thread([] {}).join();  // before, nothing is held
  ASSERT_FALSE(is_single_threaded());
  if (!can_find_table_entries()) GTEST_SKIP() << "nobody knows here whose code it is";
  int data;
  EXPECT_TRUE(may_start_thread(reinterpret_cast<const void*>(&may_start_thread)));
  EXPECT_TRUE(may_start_thread(&data)) << "code that was made as the program runs is in no file";
  EXPECT_FALSE(may_start_thread(reinterpret_cast<const void*>(&::getppid)));
  EXPECT_FALSE(may_start_thread(dlsym(RTLD_DEFAULT, "_dl_mcount"))) << "the loader's";
  EXPECT_TRUE(is_c_library(reinterpret_cast<const void*>(&::getppid)));
  EXPECT_TRUE(is_c_library(dlsym(RTLD_DEFAULT, "_dl_mcount")));
  EXPECT_FALSE(is_c_library(reinterpret_cast<const void*>(&may_start_thread)));
  EXPECT_FALSE(is_c_library(&data));
  EXPECT_FALSE(is_c_library(nullptr));
}

std::atomic<void*> g_exit_value{nullptr};

TEST(Threads, CallsTheThreadExitHandlerWithTheThreadsValue) {
  static unsigned key = 0;
  static const bool has_key = create_thread_key(  // however often this test runs
      key, [](void* value) { g_exit_value.store(value, std::memory_order_relaxed); });
  ASSERT_TRUE(has_key);
  g_exit_value.store(nullptr, std::memory_order_relaxed);
  std::thread([] {}).join();
  EXPECT_EQ(g_exit_value.load(std::memory_order_relaxed), nullptr);
  int value = 0;
  std::thread([&] { EXPECT_TRUE(set_thread_value(key, &value)); }).join();
  EXPECT_EQ(g_exit_value.load(std::memory_order_relaxed), &value);
}

}  // namespace
}  // namespace strata::os
