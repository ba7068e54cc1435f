// The address space is limited (RLIMIT_AS) and runs out: every function says ENOMEM, operator new
// throws, no live block is harmed, and after some frees all of them work again. Then the same with
// other threads.

#include <errno.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/memory.h"

namespace {

struct Block {
  unsigned char* p;
  std::size_t bytes;
};

void mark(const Block& block, unsigned char value) {
  block.p[0] = block.p[block.bytes - 1] = value;
}

/// Allocates blocks of one size until there are none.
/// \returns  how many there were
std::size_t take_all(std::size_t bytes, std::vector<Block>& blocks) {
  std::size_t count = 0;
  while (blocks.size() < blocks.capacity()) {
    errno = 0;
    auto* p = static_cast<unsigned char*>(opaque(malloc(bytes)));
    if (p == nullptr) {
      CHECK(errno == ENOMEM, "out of memory without ENOMEM");
      return count;
    }
    blocks.push_back({p, bytes});
    mark(blocks.back(), static_cast<unsigned char>(blocks.size()));
    ++count;
  }
  CHECK(false, "the limit does not hold");
  return 0;
}

void expect_intact(const std::vector<Block>& blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto value = static_cast<unsigned char>(i + 1);
    CHECK(blocks[i].p[0] == value && blocks[i].p[blocks[i].bytes - 1] == value,
          "a live block was overwritten");
  }
}

void run_out(std::size_t bytes, std::vector<Block>& blocks) {
  const std::size_t taken = take_all(bytes, blocks);
  if (taken * bytes <= 20 * kMiB) fprintf(stderr, "%zu blocks of %zu bytes\n", taken, bytes);
  CHECK(taken * bytes > 20 * kMiB, "memory was out far before the limit");
  expect_intact(blocks);

  // Now requests of every other kind are refused, too.
  errno = 0;
  CHECK(opaque(calloc(64 * kMiB, 1)) == nullptr && errno == ENOMEM, "calloc");
  errno = 0;
  CHECK(opaque(memalign(4096, 64 * kMiB)) == nullptr && errno == ENOMEM, "memalign");
  void* out = &out;
  CHECK(posix_memalign(&out, 4096, 64 * kMiB) == ENOMEM && out == &out, "posix_memalign");
  errno = 0;
  CHECK(realloc(blocks[0].p, 64 * kMiB) == nullptr && errno == ENOMEM, "realloc");
  bool threw = false;
  try {
    ::operator delete(::operator new(opaque(64 * kMiB)));
  } catch (const std::bad_alloc&) {
    threw = true;
  }
  CHECK(threw, "operator new did not throw");
  CHECK(::operator new(opaque(64 * kMiB), std::nothrow) == nullptr, "operator new(nothrow)");
  errno = 0;
  void* const nothing = opaque(malloc(0));
  CHECK(nothing != nullptr || errno == ENOMEM, "malloc(0)");
  free(nothing);
  expect_intact(blocks);

  // Half of the blocks are freed: then as many can be allocated again.
  const std::size_t half = blocks.size() / 2;
  while (blocks.size() > half) {
    free(blocks.back().p);
    blocks.pop_back();
  }
  expect_intact(blocks);
  CHECK(take_all(bytes, blocks) >= taken / 2 * 9 / 10, "freed memory cannot be had again");
  expect_intact(blocks);
  for (const Block& block : blocks) free(block.p);
  blocks.clear();
}

}  // namespace

int main() {
  std::vector<Block> blocks;
  blocks.reserve(6'000'000);
  std::vector<Block> others[3];
  for (auto& list : others) list.reserve(400'000);
  free(opaque(malloc(10)));

  rlimit limit;
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit failed");
  limit.rlim_cur = status_bytes("VmSize") + 64 * kMiB;
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit failed");

  // From one size to the next, all memory changes hands. Address space that the heap has taken
  // stays with it for ever, so the order matters: first huge blocks, then small ones from the
  // smallest up, then large ones.
  for (const std::size_t bytes :
       {5'000'000, 3'000'000, 16, 100, 1000, 30'000, 131'072, 200'000, 1'048'576, 400'000}) {
    run_out(bytes, blocks);
  }

  // Three threads reach the limit together; their stacks count, too.
  limit.rlim_cur = status_bytes("VmSize") + 96 * kMiB;
  setrlimit(RLIMIT_AS, &limit);
  std::vector<std::thread> threads;
  for (auto& list : others) {
    threads.emplace_back([&list] {
      for (int round = 0; round < 20; ++round) {
        const std::size_t bytes = round % 3 == 0 ? 500 : round % 3 == 1 ? 40'000 : 1'500'000;
        static_cast<void>(take_all(bytes, list));
        expect_intact(list);
        for (const Block& block : list) free(block.p);
        list.clear();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  run_out(1000, blocks);
  return 0;
}
