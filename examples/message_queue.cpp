// A message queue between threads whose messages live in a BitmapPool: no heap once the program
// runs, and a producer that is faster than the consumer is told so.
#include <strata/bitmap_pool.hpp>

#include <atomic>
#include <cstdio>
#include <new>
#include <thread>

struct Message {
  unsigned long number;
  Message* next;
};
constexpr unsigned long kMessages = 100'000;

// In static storage, built by the compiler: nothing runs before main.
strata::BitmapPool<sizeof(Message), 256> pool;
std::atomic<Message*> mailbox{nullptr};
std::atomic<unsigned long> turned_away{0};

void produce(unsigned long first) {
  for (unsigned long n = first; n < kMessages; n += 2) {
    void* block = pool.allocate();
    while (block == nullptr) {  // 256 messages are on their way: let the consumer catch up
      turned_away.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::yield();
      block = pool.allocate();
    }
    auto* message = ::new (block) Message{n, mailbox.load(std::memory_order_relaxed)};
    // release pairs with the consumer's acquire: the message is complete before it is seen.
    while (!mailbox.compare_exchange_weak(message->next, message, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
  }
}

int main() {
  std::thread even(produce, 0);
  std::thread odd(produce, 1);
  unsigned long received = 0;
  unsigned long sum = 0;
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
  std::printf("%lu messages through 256 blocks, producers turned away %lu times\n", received,
              turned_away.load());
  return sum == kMessages * (kMessages - 1) / 2 && pool.in_use() == 0 ? 0 : 2;
}
