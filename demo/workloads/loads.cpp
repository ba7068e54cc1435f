// Loads that put a malloc under one kind of pressure each, for `strata compare`:
//
//   loads churn [threads] [millions of operations]
//       objects replaced at random in a window per thread
//   loads handover [millions of objects]
//       one thread only allocates, another only frees
//   loads many [threads] [operations per thread]
//       512 threads, objects with random times to live
//   loads service [threads] [thousands of requests per thread]
//       requests over a large state that changes slowly, and now and then a burst of 32 MiB
//   loads idle [MiB] [seconds]
//       a burst, all of it freed, then silence: RSS over time
//
// Every object carries a stamp that whoever frees it verifies; a wrong one ends the program with 1.
// Sizes and decisions come from a fixed seed, so every contender serves the same work.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Random {
  std::uint64_t state;
  std::uint32_t below(std::uint32_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::uint32_t>((state >> 32) * bound >> 32);
  }
};

struct Object {
  unsigned char* bytes = nullptr;
  std::uint32_t size = 0;
};

[[noreturn]] void die(const char* sentence) {
  std::fprintf(stderr, "loads: %s\n", sentence);
  std::_Exit(1);
}

/// The first and the last byte say the size: overlap with a neighbour shows.
Object make(std::uint32_t size) {
  Object object{static_cast<unsigned char*>(std::malloc(size)), size};
  if (object.bytes == nullptr) die("malloc returned null");
  object.bytes[0] = static_cast<unsigned char>(size);
  object.bytes[size - 1] = static_cast<unsigned char>(size);
  return object;
}

void check_and_free(Object& object) {
  if (object.bytes == nullptr) return;
  const auto stamp = static_cast<unsigned char>(object.size);
  if (object.bytes[0] != stamp || object.bytes[object.size - 1] != stamp)
    die("an object was overwritten");
  std::free(object.bytes);
  object.bytes = nullptr;
}

void churn(std::uint64_t seed, long operations) {
  constexpr std::uint32_t kWindow = 10'000;
  Random random{seed};
  std::vector<Object> window(kWindow);
  for (long i = 0; i < operations; ++i) {
    Object& slot = window[random.below(kWindow)];
    check_and_free(slot);
    slot = make(16 + random.below(1009));
  }
  for (Object& slot : window) check_and_free(slot);
}

void run_threads(long count, void (*body)(std::uint64_t, long), long operations) {
  std::vector<std::thread> threads;
  for (long i = 0; i < count; ++i) {
    threads.emplace_back(body, 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(i + 1), operations);
  }
  for (std::thread& thread : threads) thread.join();
}

/// A ring of pointers between one producer and one consumer.
void handover(long objects) {
  constexpr std::size_t kSlots = 4096;
  struct Ring {
    Object slots[kSlots];
    alignas(64) std::atomic<std::size_t> head{0};  // written by the consumer
    alignas(64) std::atomic<std::size_t> tail{0};  // written by the producer
  };
  auto ring = std::make_unique<Ring>();
  std::thread consumer([&ring, objects] {
    for (std::size_t at = 0; at != static_cast<std::size_t>(objects);) {
      const std::size_t end = ring->tail.load(std::memory_order_acquire);
      if (at == end) std::this_thread::yield();
      for (; at != end; ++at) check_and_free(ring->slots[at % kSlots]);
      ring->head.store(at, std::memory_order_release);
    }
  });
  Random random{7};
  for (std::size_t at = 0; at != static_cast<std::size_t>(objects);) {
    const std::size_t room = ring->head.load(std::memory_order_acquire) + kSlots;
    if (at == room) std::this_thread::yield();
    for (; at != room && at != static_cast<std::size_t>(objects); ++at) {
      ring->slots[at % kSlots] = make(16 + random.below(497));
      if (at % 64 == 63) ring->tail.store(at + 1, std::memory_order_release);
    }
    ring->tail.store(at, std::memory_order_release);
  }
  consumer.join();
}

/// 60% of 16–256 bytes, 30% of 512–2048, 10% of 4–32 KiB; each lives 50 to 2000 operations.
void ephemeral(std::uint64_t seed, long operations) {
  constexpr std::size_t kRing = 64;
  struct Slot {
    Object object;
    long expires = 0;
  };
  Random random{seed};
  std::vector<Slot> ring(kRing);
  for (long now = 0; now < operations; ++now) {
    Slot& slot = ring[static_cast<std::size_t>(now) % kRing];
    if (slot.expires > now) continue;
    check_and_free(slot.object);
    const std::uint32_t kind = random.below(10);
    slot.object = make(kind < 6   ? 16 + random.below(241)
                       : kind < 9 ? 512 + random.below(1537)
                                  : 4096 + random.below(28673));
    slot.expires = now + 50 + random.below(1951);
  }
  for (Slot& slot : ring) check_and_free(slot.object);
}

/// A server that is never idle: 100 000 objects of state, of which each request replaces two; 40
/// short-lived objects per request; every 3000th request reads and drops 32 MiB.
void service(std::uint64_t seed, long requests) {
  Random random{seed};
  std::vector<Object> state(100'000);
  for (Object& object : state) object = make(16 + random.below(2033));
  std::vector<Object> temporaries(40);
  for (long request = 0; request < requests; ++request) {
    for (Object& object : temporaries) object = make(16 + random.below(700));
    for (int i = 0; i < 2; ++i) {
      Object& object = state[random.below(100'000)];
      check_and_free(object);
      object = make(16 + random.below(2033));
    }
    for (Object& object : temporaries) check_and_free(object);
    if (request % 3000 != 2999) continue;
    std::vector<Object> burst(128);
    for (Object& object : burst) {
      object = make(256 << 10);
      std::memset(object.bytes + 1, 1, object.size - 2);
    }
    for (Object& object : burst) check_and_free(object);
  }
  for (Object& object : state) check_and_free(object);
}

long resident_kib() {
  long pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%*s %ld", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * 4;
}

void idle(long mebibytes, long seconds) {
  Random random{3};
  std::vector<Object> objects;
  const std::uint64_t goal = static_cast<std::uint64_t>(mebibytes) << 20;
  objects.reserve(goal / 500);
  for (std::uint64_t bytes = 0; bytes < goal;) {
    objects.push_back(make(16 + random.below(1009)));
    std::memset(objects.back().bytes, static_cast<int>(objects.back().size & 0xff),
                objects.back().size);
    bytes += objects.back().size;
  }
  const long burst = resident_kib();
  for (std::size_t i = objects.size(); i > 1; --i) {
    std::swap(objects[i - 1], objects[random.below(static_cast<std::uint32_t>(i))]);
  }
  for (Object& object : objects) check_and_free(object);
  // From here on nothing is allocated: stdio has its buffer.
  for (long half = 0; half <= 2 * seconds; ++half) {
    std::printf("%.1f s after the last free: %ld MiB of %ld resident\n",
                static_cast<double>(half) / 2, resident_kib() / 1024, burst / 1024);
    std::fflush(stdout);
    if (half < 2 * seconds) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

long number(int argc, char** argv, int index, long otherwise) {
  if (index >= argc) return otherwise;
  char* end = nullptr;
  const long value = std::strtol(argv[index], &end, 10);
  if (*end != '\0' || value <= 0) die("arguments are whole numbers above 0");
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string load = argc > 1 ? argv[1] : "";
  if (load == "churn") {
    run_threads(number(argc, argv, 2, 1), churn, number(argc, argv, 3, 20) * 1'000'000);
  } else if (load == "handover") {
    handover(number(argc, argv, 2, 10) * 1'000'000);
  } else if (load == "many") {
    run_threads(number(argc, argv, 2, 512), ephemeral, number(argc, argv, 3, 100'000));
  } else if (load == "service") {
    run_threads(number(argc, argv, 2, 2), service, number(argc, argv, 3, 300) * 1000);
  } else if (load == "idle") {
    idle(number(argc, argv, 2, 1024), number(argc, argv, 3, 3));
  } else {
    die("name a load: churn, handover, many, service or idle");
  }
  return 0;
}
