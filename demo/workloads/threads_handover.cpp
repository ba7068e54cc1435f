// Threads that hand objects to each other in a ring: what one allocates, the next checks and frees,
// while every thread also keeps objects of its own in a table that it replaces at random. Each
// object carries a pattern that its last owner verifies; a wrong byte ends the program with 1.
//
//   demo_threads_handover [threads] [messages per thread]

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kBatch = 64;
constexpr std::size_t kTable = 4000;
constexpr std::size_t kLongestQueue = 64;

/// A block and the pattern that fills it.
struct Object {
  unsigned char* bytes = nullptr;
  std::uint32_t size = 0;
  unsigned char pattern = 0;
};

struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
};

/// Mostly small, now and then some KiB, as programs ask.
std::uint32_t draw_size(Random& random) {
  std::uint64_t draw = random.next();
  if (draw % 100 < 90) return 16 + static_cast<std::uint32_t>((draw >> 8) % 240);
  if (draw % 100 < 99) return 256 + static_cast<std::uint32_t>((draw >> 8) % 4000);
  return 4096 + static_cast<std::uint32_t>((draw >> 8) % 60'000);
}

Object make(Random& random) {
  Object object;
  object.size = draw_size(random);
  object.pattern = static_cast<unsigned char>(random.next());
  object.bytes = static_cast<unsigned char*>(std::malloc(object.size));
  if (object.bytes == nullptr) std::exit(1);
  std::memset(object.bytes, object.pattern, object.size);
  return object;
}

void check_and_free(const Object& object) {
  if (object.bytes == nullptr) return;
  for (std::uint32_t i = 0; i < object.size; ++i) {
    if (object.bytes[i] != object.pattern) {
      std::fprintf(stderr, "corruption at byte %u of %u\n", i, object.size);
      std::_Exit(1);
    }
  }
  std::free(object.bytes);
}

/// Batches from one thread to the next; the sender waits while it is full.
class Queue {
 public:
  void push(std::vector<Object> batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return batches_.size() < kLongestQueue; });
    batches_.push_back(std::move(batch));
    changed_.notify_all();
  }
  std::vector<Object> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !batches_.empty(); });
    std::vector<Object> batch = std::move(batches_.front());
    batches_.pop_front();
    changed_.notify_all();
    return batch;
  }
  bool is_empty() {
    std::lock_guard lock(mutex_);
    return batches_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::vector<Object>> batches_;
};

void work(std::size_t number, std::size_t messages, Queue& in, Queue& out) {
  Random random{0x9e3779b97f4a7c15ULL * (number + 1)};
  std::vector<Object> table(kTable);
  for (std::size_t sent = 0; sent < messages; sent += kBatch) {
    std::vector<Object> batch;
    for (std::size_t i = 0; i < kBatch; ++i) {
      batch.push_back(make(random));
      Object& place = table[random.next() % kTable];
      check_and_free(place);
      place = make(random);
    }
    out.push(std::move(batch));
    // Everybody sends before receiving, so the ring never waits for itself.
    for (const Object& object : in.pop()) check_and_free(object);
  }
  for (const Object& object : table) check_and_free(object);
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t threads = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 8;
  std::size_t messages = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 120'000;
  if (threads == 0 || messages == 0) return 2;
  std::vector<Queue> queues(threads);
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] { work(i, messages, queues[i], queues[(i + 1) % threads]); });
  }
  for (std::thread& worker : workers) worker.join();
  for (Queue& queue : queues) {
    if (!queue.is_empty()) return 1;
  }
  std::printf("%zu threads, %zu messages each, all intact\n", threads, messages);
}
