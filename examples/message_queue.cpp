// A message queue between threads whose messages live in a BitmapPool: no system call and no heap
// once the program runs, and a producer that is faster than the consumer is told so.
#include <strata/bitmap_pool.hpp>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <new>
#include <thread>

struct Message {
  Message(std::uint64_t n, Message* after) : number(n), next(after) {}
  std::uint64_t number;
  Message* next;
};
constexpr std::uint64_t kMessages = 100'000;

// Both in static storage, built by the compiler: nothing runs before main.
constinit strata::BitmapPool<sizeof(Message), 256> pool;
constinit std::atomic<Message*> mailbox{nullptr};

void produce(std::uint64_t first, std::atomic<std::uint64_t>& turned_away) {
  for (std::uint64_t n = first; n < kMessages; n += 2) {
    void* block = pool.allocate();
    while (block == nullptr) {  // 256 messages are on their way: let the consumer catch up
      turned_away.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::yield();
      block = pool.allocate();
    }
    auto* message = ::new (block) Message(n, mailbox.load(std::memory_order_relaxed));
    // release pairs with the consumer's acquire: the message is complete before it is seen.
    while (!mailbox.compare_exchange_weak(message->next, message, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }
}

int main() {
  std::atomic<std::uint64_t> turned_away{0};
  std::thread even(produce, 0, std::ref(turned_away));
  std::thread odd(produce, 1, std::ref(turned_away));
  std::uint64_t received = 0;
  std::uint64_t sum = 0;
  while (received < kMessages) {
    // The whole mailbox at once, so that no list head is ever taken from under another thread.
    Message* message = mailbox.exchange(nullptr, std::memory_order_acquire);
    if (message == nullptr) std::this_thread::yield();
    while (message != nullptr) {
      Message* next = message->next;
      sum += message->number;
      ++received;
      if (!pool.deallocate(message)) return 1;
      message = next;
    }
  }
  even.join();
  odd.join();
  std::printf("%llu messages through 256 blocks, producers turned away %llu times\n",
              static_cast<unsigned long long>(received),
              static_cast<unsigned long long>(turned_away.load()));
  return sum == kMessages * (kMessages - 1) / 2 && pool.in_use() == 0 ? 0 : 2;
}
