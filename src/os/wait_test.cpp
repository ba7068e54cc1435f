#include "os/wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

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
