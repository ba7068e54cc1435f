// advised PROGRAM plain|advised     programs whose best allocator is known, without and with it
//
//   parser    builds a tree of nodes of many sizes for each input, and drops the whole tree
//   tree      a sorted tree of equal nodes that come and go
//   messages  one thread makes messages, another frees them
//   growing   vectors that are filled without being told how far
//   nothing   strings of all sizes with no pattern
//
// Prints a number that both ways of a program must agree on; then the CPU time of the work in
// seconds, and by how many bytes the process grew meanwhile.
#include <strata/bitmap_pool.hpp>
#include <strata/block_allocator.hpp>
#include <strata/memory_resource.hpp>
#include <strata/page_arena.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/memory.h"

namespace {

struct Node {
  Node* left = nullptr;
  Node* right = nullptr;
  std::size_t bytes = 0;
};

constexpr int kInputs = 12;
constexpr int kNodes = 80000;

std::size_t node_bytes(std::mt19937& random) { return sizeof(Node) + random() % 64; }

unsigned long parse_plain() {
  std::mt19937 random(1);
  unsigned long sum = 0;
  for (int input = 0; input < kInputs; ++input) {
    std::vector<Node*> nodes;
    nodes.reserve(kNodes);
    for (int i = 0; i < kNodes; ++i) {
      const std::size_t bytes = node_bytes(random);
      Node* const node = new (::operator new(bytes)) Node;
      node->bytes = bytes;
      if (i > 0) node->left = nodes[static_cast<std::size_t>(i) / 2];
      nodes.push_back(node);
    }
    for (Node* node : nodes) {
      sum += node->bytes;
      ::operator delete(node);
    }
  }
  return sum;
}

unsigned long parse_advised() {
  std::mt19937 random(1);
  unsigned long sum = 0;
  strata::PageArena arena(64 << 20);
  for (int input = 0; input < kInputs; ++input) {
    {
      strata::MemoryResource<strata::PageArena> memory(arena, std::pmr::new_delete_resource());
      std::vector<Node*> nodes;
      nodes.reserve(kNodes);
      for (int i = 0; i < kNodes; ++i) {
        const std::size_t bytes = node_bytes(random);
        Node* const node = new (memory.allocate(bytes, alignof(Node))) Node;
        node->bytes = bytes;
        if (i > 0) node->left = nodes[static_cast<std::size_t>(i) / 2];
        nodes.push_back(node);
      }
      for (const Node* node : nodes) sum += node->bytes;
    }
    arena.reset();
  }
  return sum;
}

struct Leaf {
  explicit Leaf(unsigned long k) : key(k) {}
  unsigned long key;
  Leaf* next = nullptr;
};

constexpr int kTurns = 2'000'000;
constexpr std::size_t kBuckets = 16384;

/// Keys come and go in chains below a table: `make` and `drop` are the only difference.
template <typename Make, typename Drop>
unsigned long turn(Make make, Drop drop) {
  std::mt19937 random(2);
  std::vector<Leaf*> table(kBuckets);
  unsigned long sum = 0;
  for (int i = 0; i < kTurns; ++i) {
    Leaf*& bucket = table[random() % kBuckets];
    if (bucket == nullptr || random() % 2 == 0) {
      Leaf* const leaf = make(static_cast<unsigned long>(i));
      leaf->next = bucket;
      bucket = leaf;
    } else {
      Leaf* const leaf = bucket;
      bucket = leaf->next;
      sum += leaf->key;
      drop(leaf);
    }
  }
  for (Leaf*& bucket : table) {
    while (Leaf* const leaf = bucket) {
      bucket = leaf->next;
      drop(leaf);
    }
  }
  return sum;
}

unsigned long tree_plain() {
  return turn([](unsigned long key) { return new Leaf(key); }, [](Leaf* leaf) { delete leaf; });
}

unsigned long tree_advised() {
  strata::PageArena arena(8 << 20);
  strata::BlockAllocator leaves(arena, sizeof(Leaf), 200000);
  return turn([&](unsigned long key) { return new (leaves.allocate()) Leaf(key); },
              [&](Leaf* leaf) { leaves.deallocate(leaf); });
}

struct Message {
  unsigned long number = 0;
  char text[184] = {};
};

constexpr unsigned long kMessages = 2'000'000;
constexpr std::size_t kLetters = 256;  ///< messages that are handed over at once

/// Hands over letters of messages, one at a time: whoever comes too early sleeps.
class Post {
 public:
  using Letter = std::array<Message*, kLetters>;

  void send(const Letter& letter) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_full_; });
    letter_ = letter;
    is_full_ = true;
    changed_.notify_one();
  }
  Letter receive() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_full_; });
    is_full_ = false;
    changed_.notify_one();
    return letter_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Letter letter_{};
  bool is_full_ = false;
};

template <typename Make, typename Drop>
unsigned long send(Make make, Drop drop) {
  Post post;
  unsigned long sum = 0;
  std::thread receiver([&] {
    for (unsigned long i = 0; i < kMessages; i += kLetters) {
      for (Message* const message : post.receive()) {
        if (message == nullptr) continue;
        sum += message->number;
        drop(message);
      }
    }
  });
  for (unsigned long i = 0; i < kMessages; i += kLetters) {
    Post::Letter letter{};
    for (unsigned long at = i; at < std::min(i + kLetters, kMessages); ++at) {
      letter[at - i] = make();
      letter[at - i]->number = at;
    }
    post.send(letter);
  }
  receiver.join();
  return sum;
}

unsigned long messages_plain() {
  return send([] { return new Message; }, [](Message* message) { delete message; });
}

unsigned long messages_advised() {
  static strata::BitmapPool<sizeof(Message), 4 * kLetters> pool;
  return send([] { return new (pool.allocate()) Message; },
              [](Message* message) { pool.deallocate(message); });
}

unsigned long grow(bool is_told) {
  constexpr unsigned long kValues = 3000;
  unsigned long sum = 0;
  for (unsigned long round = 0; round < 20000; ++round) {
    std::vector<unsigned> values;
    if (is_told) values.reserve(kValues);
    for (unsigned i = 0; i < kValues; ++i) values.push_back(i);
    sum += values[round % kValues];
  }
  return sum;
}

unsigned long nothing() {
  std::mt19937 random(3);
  std::vector<std::string> words(5000);
  unsigned long sum = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    std::string& word = words[random() % words.size()];
    word = std::string(20 + random() % 400, 'x');
    sum += word.size();
  }
  return sum;
}

/// What the libraries add to the process is there before the work is measured.
void warm_up() {
  strata::PageArena arena(1 << 20);
  strata::MemoryResource<strata::PageArena> memory(arena, std::pmr::new_delete_resource());
  std::memset(memory.allocate(64, alignof(Node)), 0, 64);
  void* volatile object = ::operator new(64);
  ::operator delete(object);
}

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

unsigned long run(const std::string& program, bool is_advised) {
  if (program == "parser") return is_advised ? parse_advised() : parse_plain();
  if (program == "tree") return is_advised ? tree_advised() : tree_plain();
  if (program == "messages") return is_advised ? messages_advised() : messages_plain();
  if (program == "growing") return grow(is_advised);
  if (program == "nothing") return nothing();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  warm_up();
  const std::size_t resident = resident_bytes();
  const double began_s = cpu_s();
  const unsigned long sum = run(argv[1], std::strcmp(argv[2], "advised") == 0);
  std::printf("%lu\n%.6f %zu\n", sum, cpu_s() - began_s,
              std::max(resident, peak_resident_bytes()) - resident);
  return sum == 0;
}
