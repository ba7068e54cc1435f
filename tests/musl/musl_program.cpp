// A C++ program that uses musl and the malloc: containers, exceptions, threads and every operator
// new.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#define CHECK(condition) \
  ((condition) ? (void)0 \
               : (std::fprintf(stderr, "%d: %s is false\n", __LINE__, #condition), std::_Exit(1)))

namespace {

struct alignas(256) Aligned {
  char bytes[300];
};

void containers_grow_and_shrink() {
  std::map<std::string, std::vector<int>> lists;
  for (int i = 0; i < 10000; ++i) lists["list " + std::to_string(i % 100)].push_back(i);
  CHECK(lists.size() == 100 && lists["list 7"][99] == 9907);
  std::unordered_map<int, std::shared_ptr<std::string>> words;
  for (int i = 0; i < 1000; ++i) words[i] = std::make_shared<std::string>(50, 'x');
  CHECK(words[999].use_count() == 1);
}

void every_operator_serves() {
  std::unique_ptr<Aligned> one(new Aligned);
  std::unique_ptr<Aligned[]> many(new (std::nothrow) Aligned[3]);
  CHECK(reinterpret_cast<std::uintptr_t>(one.get()) % 256 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(many.get()) % 256 == 0);
  volatile std::size_t too_many = PTRDIFF_MAX;
  CHECK(new (std::nothrow) char[too_many] == nullptr);
  try {
    ::operator delete(::operator new(too_many));
    CHECK(!"refused");
  } catch (const std::bad_alloc&) {
  }
}

void exceptions_carry_their_text() {
  try {
    throw std::runtime_error(std::string(100, 'e'));
  } catch (const std::exception& error) {
    CHECK(std::string(error.what()).size() == 100);
  }
}

thread_local std::vector<int> t_numbers;

void threads_hand_objects_over() {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<std::string>> handed;
  constexpr std::size_t kEach = 5000;
  auto produce = [&] {
    t_numbers.assign(100, 7);
    for (std::size_t i = 0; i < kEach; ++i) {
      auto word = std::make_unique<std::string>(i % 200, 'w');
      std::lock_guard lock(mutex);
      handed.push_back(std::move(word));
      changed.notify_one();
    }
  };
  std::thread first(produce), second(produce);
  std::size_t taken = 0;
  while (taken < 2 * kEach) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !handed.empty(); });
    for (const auto& word : handed)
      CHECK(std::all_of(word->begin(), word->end(), [](char c) { return c == 'w'; }));
    taken += handed.size();
    handed.clear();
  }
  first.join();
  second.join();
}

}  // namespace

int main() {
  containers_grow_and_shrink();
  every_operator_serves();
  exceptions_carry_their_text();
  threads_hand_objects_over();
  std::puts("all is well");
}
