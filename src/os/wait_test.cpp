#include "os/wait.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <thread>

#include "os/child_in_test.h"
#include "os/page_source.h"

namespace strata::os {
namespace {

const std::uint32_t* address_of(const std::atomic<std::uint32_t>& value) {
  return reinterpret_cast<const std::uint32_t*>(&value);
}

TEST(Wait, WaitReturnsAtOnceWhenTheWordHasChanged) {
  const std::atomic<std::uint32_t> word{1};
  errno = EDOM;
  wait_on(address_of(word), 0);  // for ever, if it waited
  EXPECT_EQ(errno, EDOM);
}

TEST(Wait, WaitEndsAtItsTimeout) {
  const std::atomic<std::uint32_t> word{0};
  errno = EDOM;
  wait_on(address_of(word), 0, 1'000'000);
  EXPECT_EQ(errno, EDOM);
}

TEST(Wait, WhatAWordIsCanBeAskedWhereNothingCanBeRead) {
  const std::atomic<std::uint32_t> word{7};
  errno = EDOM;
  EXPECT_TRUE(is_still(address_of(word), 7));
  EXPECT_FALSE(is_still(address_of(word), 8));
  void* const place = kernel_pages().map(page_bytes());
  ASSERT_NE(place, nullptr);
  const auto* const mapped = static_cast<const std::uint32_t*>(place);
  EXPECT_TRUE(is_still(mapped, 0)) << "nobody has touched it";
  kernel_pages().unmap(place, page_bytes());
  EXPECT_FALSE(is_still(mapped, 0));
  void* const reserved = kernel_pages().reserve(page_bytes());
  ASSERT_NE(reserved, nullptr);
  EXPECT_FALSE(is_still(static_cast<const std::uint32_t*>(reserved), 0));
  kernel_pages().unmap(reserved, page_bytes());
  EXPECT_EQ(errno, EDOM);
}

/// Refuses every operation on a futex but waiting and waking, with this error.
bool allow_only_waiting(unsigned error) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FUTEX_CMD_MASK & 0xff),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(Wait, WhatAWordIsCanBeAskedBehindAFilterThatKnowsOnlyWaiting) {
  const std::atomic<std::uint32_t> word{7};
  void* const reserved = kernel_pages().reserve(page_bytes());
  ASSERT_NE(reserved, nullptr);
  for (const unsigned error : {unsigned{EPERM}, unsigned{ENOSYS}}) {
    const int status = status_in_child([&] {
      if (!allow_only_waiting(error)) return 100;
      const bool is_known = is_still(address_of(word), 7) && !is_still(address_of(word), 8);
      return is_known && !is_still(static_cast<const std::uint32_t*>(reserved), 0) ? 0 : 1;
    });
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 100) GTEST_SKIP() << "no filter may be set here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  kernel_pages().unmap(reserved, page_bytes());
}

TEST(Wait, WakesEveryWaiter) {
  std::atomic<std::uint32_t> word{0};
  std::atomic<int> woken{0};
  std::thread waiters[4];
  for (std::thread& waiter : waiters) {
    waiter = std::thread([&] {
      while (word.load(std::memory_order_acquire) == 0) wait_on(address_of(word), 0);
      woken.fetch_add(1, std::memory_order_relaxed);
    });
  }
  word.store(1, std::memory_order_release);
  wake_all(address_of(word));
  for (std::thread& waiter : waiters) waiter.join();  // for ever, if a wake-up is lost
  EXPECT_EQ(woken.load(std::memory_order_relaxed), 4);
}

TEST(Wait, WakesOneWaiterPerCall) {
  std::atomic<std::uint32_t> tickets{0};
  std::thread waiters[3];
  for (std::thread& waiter : waiters) {
    waiter = std::thread([&] {
      for (;;) {
        std::uint32_t left = tickets.load(std::memory_order_acquire);
        if (left == 0) {
          wait_on(address_of(tickets), 0);
        } else if (tickets.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) {
          return;
        }
      }
    });
  }
  for (int i = 0; i < 3; ++i) {
    tickets.fetch_add(1, std::memory_order_release);
    wake_one(address_of(tickets));
  }
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace strata::os
