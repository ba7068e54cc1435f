// advised PROGRAM plain|advised     programs whose best allocator is known, without and with it
//
//   parser    builds a tree of nodes of many sizes for each input, and drops the whole tree
//   tree      a sorted tree of equal nodes that come and go
//   messages  one thread makes messages, another frees them
//   growing   vectors that are filled without being told how far
//   buffers   one thread replaces buffers of 1 to 64 KiB at random
//   pieces    threads replace each other's pieces of 64 bytes to 8 KiB
//   nothing   texts that are resized at random
//
// Prints a number that must be the same both ways, then the CPU time of the work in seconds, and by
// how many bytes the process grew meanwhile.
#include <strata/bitmap_pool.hpp>
#include <strata/block_allocator.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/memory_resource.hpp>
#include <strata/page_arena.hpp>
#include <strata/thread_heaps.hpp>

#include <algorithm>
#include <array>
#include <atomic>
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
  strata::MemoryResource<strata::PageArena> memory(arena, std::pmr::new_delete_resource());
  for (int input = 0; input < kInputs; ++input) {
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
    memory.reset();
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

/// A hash table with chains of nodes that come and go. The two ways differ in `make` and `drop`
/// only.
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

/// Hands over messages, one letter of them at a time. A thread that comes too early sleeps.
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

/// Writes what a program surely writes: both ends, and a byte of each page.
unsigned char* written(void* memory, std::size_t bytes, unsigned char value) {
  auto* const block = static_cast<unsigned char*>(memory);
  for (std::size_t at = 0; at < bytes; at += 4096) block[at] = value;
  block[bytes - 1] = value;
  return block;
}

constexpr std::size_t kBuffers = 400;

template <typename Make, typename Drop>
unsigned long replace_buffers(Make make, Drop drop) {
  std::mt19937 random(4);
  std::vector<unsigned char*> buffers(kBuffers);
  unsigned long sum = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    unsigned char*& buffer = buffers[random() % kBuffers];
    if (buffer != nullptr) {
      sum += *buffer;
      drop(buffer);
    }
    const std::size_t bytes = 1024 + random() % (63 * 1024);
    buffer = written(make(bytes), bytes, static_cast<unsigned char>(i));
  }
  for (unsigned char* const buffer : buffers) {
    if (buffer != nullptr) drop(buffer);
  }
  return sum;
}

unsigned long buffers_plain() {
  return replace_buffers([](std::size_t bytes) { return std::malloc(bytes); },
                         [](void* buffer) { std::free(buffer); });
}

unsigned long buffers_advised() {
  strata::CoalescingHeap heap(64 << 20);
  return replace_buffers([&](std::size_t bytes) { return heap.allocate(bytes); },
                         [&](void* buffer) { heap.deallocate(buffer); });
}

constexpr int kPieceThreads = 3;

/// Each thread draws which pieces it replaces, so most of what it frees was made by another thread.
template <typename Make, typename Drop>
unsigned long replace_pieces(Make make, Drop drop) {
  std::vector<std::atomic<unsigned char*>> pieces(2000);
  std::atomic<unsigned long> made{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < kPieceThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(static_cast<unsigned>(number) + 5);
      for (int i = 0; i < 400'000; ++i) {
        const std::size_t bytes = 64 + random() % (8 * 1024);
        unsigned char* const piece = written(make(bytes), bytes, 1);
        // acq_rel: the thread that takes the piece sees what was written into it
        unsigned char* const old = pieces[random() % pieces.size()].exchange(piece);
        if (old != nullptr) drop(old);
        ++made;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& piece : pieces) {
    if (unsigned char* const old = piece.load()) drop(old);
  }
  return made;
}

unsigned long pieces_plain() {
  return replace_pieces([](std::size_t bytes) { return std::malloc(bytes); },
                        [](void* piece) { std::free(piece); });
}

unsigned long pieces_advised() {
  static strata::ThreadHeaps heaps;
  return replace_pieces([](std::size_t bytes) { return heaps.allocate(bytes); },
                        [](void* piece) { heaps.deallocate(piece); });
}

/// Texts that are resized to any size: no part of the toolkit does that better than malloc.
unsigned long nothing() {
  std::mt19937 random(3);
  std::vector<unsigned char*> words(5000);
  unsigned long sum = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    unsigned char*& word = words[random() % words.size()];
    const std::size_t bytes = 20 + random() % 400;
    word = written(std::realloc(word, bytes), bytes, static_cast<unsigned char>(i));
    sum += bytes;
  }
  for (unsigned char* const word : words) std::free(word);
  return sum;
}

/// Adds to the process, before the work is measured, what the libraries need.
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
  if (program == "buffers") return is_advised ? buffers_advised() : buffers_plain();
  if (program == "pieces") return is_advised ? pieces_advised() : pieces_plain();
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
