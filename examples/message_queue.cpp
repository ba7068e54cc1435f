// A message queue between threads: it needs no heap, and tells a producer when it is full.
#include <strata/message_queue.hpp>

#include <atomic>
#include <cstdio>
#include <thread>

struct Message {
  unsigned long number;
  unsigned long producer;
};
constexpr unsigned long kMessages = 100'000;

// In static storage, constant-initialised: nothing runs before main.
strata::MessageQueue<Message, 256> queue;
std::atomic<unsigned long> turned_away{0};

void produce(unsigned long first) {
  for (unsigned long n = first; n < kMessages; n += 2) {
    while (!queue.try_emplace(n, first)) {
      // The queue is full: let the consumer catch up.
      turned_away.fetch_add(1, std::memory_order_relaxed);
      std::this_thread::yield();
    }
  }
}

int main() {
  std::thread even(produce, 0);
  std::thread odd(produce, 1);
  unsigned long received = 0;
  unsigned long expected[2] = {0, 1};  // for each producer: its messages keep their order
  while (received < kMessages) {
    bool is_next = true;
    const bool any = queue.try_consume([&](const Message& message) {
      is_next = message.number == expected[message.producer];
      expected[message.producer] += 2;
      ++received;
    });
    if (!is_next) return 1;
    if (!any) std::this_thread::yield();
  }
  even.join();
  odd.join();
  std::printf("%lu messages through 256 blocks, producers turned away %lu times\n", received,
              turned_away.load());
  return queue.empty() && queue.in_flight() == 0 ? 0 : 2;
}
