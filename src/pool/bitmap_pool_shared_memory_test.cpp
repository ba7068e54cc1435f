#include <strata/bitmap_pool_view.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "os/child_in_test.h"
#include "pool/drain_test.h"

/// \file  One pool and several processes, some of which are killed.

namespace strata {
namespace {

/// Calls `at_step` at the chosen atomic step of this process.
struct WatchedSteps {
  static inline std::size_t until = 0;
  static inline std::function<void()> at_step;
  static void load() { step(); }
  static void rmw() { step(); }
  static void step() {
    if (until != 0 && --until == 0) at_step();
  }
};
struct WatchedPolicy {
  using Starts = detail::ThreadStarts;
  using Steps = WatchedSteps;
};

/// Anonymous shared memory that can be mapped again at another address.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes)
      : bytes_(bytes), file_(memfd_create("pool", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
  }
  ~SharedMemory() {
    for (void* p : mapped_) munmap(p, bytes_);
    close(file_);
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void* map() {
    mapped_.push_back(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
    return mapped_.back();
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  int file_;
  std::vector<void*> mapped_;
};

/// The processes write this at the start of each block that they hold: the owner, 0 for none.
struct Stamp {
  std::atomic<std::uint32_t> owner;
};

TEST(BitmapPoolSharedMemory, ABlockTravelsBetweenProcessesByItsNumber) {
  using View = BitmapPoolView<>;
  const BitmapPoolShape shape{64, 100};
  SharedMemory memory(View::required_bytes(shape));
  View pool = View::try_create_in_zeroed(memory.map(), memory.bytes(), shape);
  ASSERT_TRUE(pool);
  void* p = pool.allocate();
  const std::size_t number = pool.index_of(p);
  *static_cast<int*>(p) = 4711;
  const int status = os::status_in_child([&] {
    View mine = View::try_attach(memory.map(), memory.bytes());
    if (!mine || mine.block(0) == pool.block(0)) return 1;  // the same address would show nothing
    int* const there = static_cast<int*>(mine.block(number));
    if (!mine.is_in_use(there) || *there != 4711 || mine.owns(p)) return 2;
    if (!mine.deallocate(there)) return 3;
    void* const answer = mine.allocate();
    *static_cast<int*>(answer) = 42;
    return 100 + static_cast<int>(mine.index_of(answer));
  });
  ASSERT_TRUE(WIFEXITED(status));
  ASSERT_GE(WEXITSTATUS(status), 100);
  EXPECT_EQ(*static_cast<int*>(pool.block(static_cast<std::size_t>(WEXITSTATUS(status)) - 100)),
            42);
  EXPECT_EQ(pool.in_use(), 1u);
}

TEST(BitmapPoolSharedMemory, AProcessKilledAtAnyStepLosesOneBlockAtMost) {
  using View = BitmapPoolView<WatchedPolicy>;
  const BitmapPoolShape shape{8, 40, 8, 40};  // one bit per word, and a level of markers
  SharedMemory memory(View::required_bytes(shape));
  void* const mapped = memory.map();
  bool survived = false;
  for (std::size_t n = 1; !survived; ++n) {
    View pool = View::try_create(mapped, memory.bytes(), shape);
    const std::vector<void*> blocks = drain(pool);
    ASSERT_EQ(blocks.size(), 40u);
    const std::set<std::size_t> free = {3, 20, 39};
    for (const std::size_t index : free) ASSERT_TRUE(pool.deallocate(pool.block(index)));
    const int status = os::status_in_child([&] {
      WatchedSteps::at_step = [] { kill(getpid(), SIGKILL); };
      WatchedSteps::until = n;
      View mine = View::try_attach(memory.map(), memory.bytes());
      mine.deallocate(mine.block(7));
      void* const p = mine.allocate();
      while (mine.allocate() != nullptr) {
      }
      mine.deallocate(p);
      return 0;
    });
    survived = WIFEXITED(status);
    // The process held some blocks, and lost at most one: all others come to us, or are known to be
    // taken.
    const std::size_t taken = pool.in_use();
    const std::size_t found = drain(pool).size();
    EXPECT_GE(taken + found + 1, 40u) << "killed at step " << n;
    pool.repair();
    drain(pool);
    EXPECT_EQ(pool.in_use(), 40u) << "killed at step " << n;
    EXPECT_EQ(pool.broken_invariant(), nullptr);
    ASSERT_LT(n, 2000u);
  }
}

TEST(BitmapPoolSharedMemory, TheOthersWorkOnWhenAProcessIsKilledMidRun) {
  using View = BitmapPoolView<>;
  struct Shared {
    std::atomic<std::uint32_t> operations[2];
  };
  constexpr std::size_t kHold = 16;
  constexpr std::uint32_t kMe = 99;
  const BitmapPoolShape shape{64, 1200};
  SharedMemory memory(View::required_bytes(shape));
  SharedMemory counters(sizeof(Shared));
  auto* const shared = static_cast<Shared*>(counters.map());
  View pool = View::try_create_in_zeroed(memory.map(), memory.bytes(), shape);
  ASSERT_TRUE(pool);

  const auto work = [&](View& mine, std::uint32_t id, std::mt19937& random,
                        std::vector<void*>& held, std::atomic<int>& wrong) {
    if (held.size() < kHold && random() % 2 == 0) {
      if (void* p = mine.allocate()) {
        static_cast<Stamp*>(p)->owner.store(id, std::memory_order_relaxed);
        held.push_back(p);
      } else {
        ++wrong;  // far more blocks than anybody holds
      }
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      auto* const stamp = static_cast<Stamp*>(held.back());
      if (stamp->owner.exchange(0, std::memory_order_relaxed) != id) ++wrong;
      if (!mine.deallocate(held.back())) ++wrong;
      held.pop_back();
    }
  };

  std::mt19937 random(7);
  std::atomic<int> wrong{0};
  std::vector<void*> held;
  for (std::uint32_t round = 0; round < 20; ++round) {
    pid_t children[2];
    for (std::uint32_t c = 0; c < 2; ++c) {
      shared->operations[c].store(0);
      children[c] = fork();
      if (children[c] == 0) {
        View mine = View::try_attach(memory.map(), memory.bytes());
        std::mt19937 own(round * 2 + c);
        std::vector<void*> mine_held;
        std::atomic<int> mine_wrong{0};
        for (;;) {
          work(mine, c + 1, own, mine_held, mine_wrong);
          if (mine_wrong != 0) _exit(1);
          shared->operations[c].fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
    const auto wait_for = [&](std::uint32_t c, std::uint32_t count) {
      while (shared->operations[c].load(std::memory_order_relaxed) < count) {
        ASSERT_EQ(waitpid(children[c], nullptr, WNOHANG), 0) << "a child found something wrong";
        for (int i = 0; i < 100; ++i) work(pool, kMe, random, held, wrong);
      }
    };
    wait_for(0, 2000 + round * 37);
    wait_for(1, 2000);
    if (HasFatalFailure()) return;
    // The first process is killed in the middle of its work; the second one and this one go on.
    kill(children[0], SIGKILL);
    waitpid(children[0], nullptr, 0);
    // Clears the dead owner's stamp, too: the next owner has the block for a moment before it
    // stamps it.
    const auto was_of = [](void* p, std::uint32_t dead) {
      return static_cast<Stamp*>(p)->owner.compare_exchange_strong(dead, 0,
                                                                   std::memory_order_relaxed);
    };
    const std::size_t reclaimed = pool.deallocate_if([&](void* p) { return was_of(p, 1); });
    EXPECT_LE(reclaimed, kHold);
    wait_for(1, shared->operations[1].load() + 2000);
    if (HasFatalFailure()) return;
    kill(children[1], SIGKILL);
    waitpid(children[1], nullptr, 0);
    EXPECT_LE(pool.deallocate_if([&](void* p) { return was_of(p, 2); }), kHold);
    EXPECT_EQ(wrong.load(), 0);
    // What is still taken is ours, and at most one block per kill between the bit and the stamp.
    const std::size_t ownerless = pool.in_use() - held.size();
    EXPECT_LE(ownerless, 2u);
    // Only this process is left: a block that is not ours has no owner.
    const std::set<void*> ours(held.begin(), held.end());
    EXPECT_EQ(pool.deallocate_if([&](void* p) { return ours.count(p) == 0; }), ownerless);
    pool.repair();
    EXPECT_EQ(pool.in_use(), held.size());
    EXPECT_EQ(pool.broken_invariant(), nullptr);
  }
  for (void* p : held) EXPECT_TRUE(pool.deallocate(p));
  EXPECT_EQ(drain(pool).size(), pool.capacity());
}

}  // namespace
}  // namespace strata
