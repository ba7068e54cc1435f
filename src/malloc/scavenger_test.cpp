#include "malloc/scavenger.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "malloc/malloc_in_test.h"
#include "os/emulation.h"
#include "os/resources.h"
#include "os/threads.h"

namespace strata {
namespace {

std::size_t thread_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

/// Waits until the condition holds; false only if that takes longer than anything could.
template <typename Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct ScavengerTest : ::testing::Test {
  // Kept where a leak check sees them.
  static std::deque<TestMalloc>& all() {
    static auto* mallocs = new std::deque<TestMalloc>;
    return *mallocs;
  }
  // Never destroyed, since the scavenger's thread is detached.
  TestMalloc& program = all().emplace_back();
  MallocInstance& malloc = program.malloc;
  Engine& engine = program.engine;
  Scavenger& scavenger = malloc.scavenger();
  std::size_t threads_before = 0;

  void start(std::size_t delay_ms) {
    program.start({}, delay_ms);
    engine.release_all();
    // With the first thread, a sanitizer starts a thread of its own.
    std::uint32_t joined = 0;
    std::thread([&] { joined = os::thread_id(); }).join();
    // The kernel lists a joined thread for a moment longer.
    const auto listed = std::filesystem::path("/proc/self/task") / std::to_string(joined);
    ASSERT_TRUE(eventually([&] { return !std::filesystem::exists(listed); }));
    threads_before = thread_count();
  }
  /// Frees blocks that hold so much memory.
  void make_idle(std::size_t bytes) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < bytes / kMiB; ++i) {
      blocks.push_back(engine.allocate_large(kMiB, 16).address);
      ASSERT_NE(blocks.back(), nullptr);
      static_cast<char*>(blocks.back())[0] = 1;
    }
    for (void* p : blocks) engine.deallocate_large(p);
    ASSERT_GE(engine.idle_bytes(), bytes);
  }
  bool has_ended() {
    return eventually([this] { return thread_count() <= threads_before; });
  }
};

TEST_F(ScavengerTest, StartsNoThreadForLittleIdleMemory) {
  start(1);
  make_idle(Scavenger::kWakeBytes / 2);
  scavenger.notice();
  EXPECT_EQ(thread_count(), threads_before);
  EXPECT_NE(engine.idle_bytes(), 0u);
}

TEST_F(ScavengerTest, StartsNoThreadWhenTheDelayIsZero) {
  start(0);
  make_idle(2 * Scavenger::kWakeBytes);
  scavenger.notice();
  EXPECT_EQ(thread_count(), threads_before);
  EXPECT_NE(engine.idle_bytes(), 0u);
}

TEST_F(ScavengerTest, ReturnsIdleMemoryWithoutAnotherCallAndEnds) {
  start(20);
  make_idle(8 * Scavenger::kWakeBytes);
  scavenger.notice();
  EXPECT_TRUE(eventually([this] { return engine.idle_bytes() == 0; }));
  EXPECT_GE(program.pages.decommitted_bytes(), 8 * Scavenger::kWakeBytes);
  EXPECT_TRUE(has_ended());
  program.check_nothing_is_left();
}

TEST_F(ScavengerTest, KeptHugeMappingsGoBackToo) {
  start(20);
  void* huge = engine.allocate_large(4 * Scavenger::kWakeBytes, 16).address;
  ASSERT_NE(huge, nullptr);
  std::memset(huge, 1, 4 * Scavenger::kWakeBytes);
  engine.deallocate_large(huge);
  const std::size_t mapped = program.pages.mapped_bytes();
  scavenger.notice();
  EXPECT_TRUE(eventually([this] { return engine.idle_bytes() == 0; }));
  EXPECT_LE(program.pages.mapped_bytes(), mapped - 4 * Scavenger::kWakeBytes);
  EXPECT_TRUE(has_ended());
}

TEST_F(ScavengerTest, StartsNoThreadForABlockThatWasHardlyTouched) {
  start(20);
  const std::size_t bytes = 2 * Scavenger::kWakeBytes;
  void* const bare = engine.allocate_large(bytes, 16).address;
  ASSERT_NE(bare, nullptr);
  if (!os::is_hardly_touched(bare, bytes)) GTEST_SKIP() << "nobody knows what was touched here";
  engine.deallocate_large(bare);
  scavenger.notice();
  EXPECT_EQ(scavenger.statistics().threads, 0u);
  EXPECT_LT(engine.idle_bytes(), Scavenger::kWakeBytes);
}

TEST_F(ScavengerTest, StartsItsThreadForWhoFreesSuchBlocksForEver) {
  start(20);
  const std::size_t bytes = 2 * Scavenger::kWakeBytes;
  EXPECT_TRUE(eventually([&] {
    engine.deallocate_large(engine.allocate_large(bytes, 16).address);
    scavenger.notice();
    return scavenger.statistics().threads != 0;
  }));
  EXPECT_TRUE(eventually([&] { return engine.idle_bytes() < Scavenger::kWakeBytes; }));
  EXPECT_TRUE(has_ended());
}

/// The block is needed again and again, so no round returns it. But what the process touches of a
/// file meanwhile raises its peak.
TEST_F(ScavengerTest, KeptMappingsMakeRoomForFiles) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's memory counts as the process's";
  if (prctl(PR_GET_SECCOMP) != 0) GTEST_SKIP() << "nobody asks where a filter may be";
  start(400);
  constexpr std::size_t kHuge = 4 * Scavenger::kWakeBytes;
  constexpr std::size_t kFile = 256 * kMiB;
  if (os::most_resident_bytes() > os::resident_bytes() + kFile / 2)
    GTEST_SKIP() << "an earlier test, or the program that started this one, had too high a peak";
  constexpr std::size_t kStep = 64 * 1024;
  void* const file = mmap(nullptr, kFile, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(file, MAP_FAILED);
  const auto use_block = [this] {
    void* const block = engine.allocate_large(kHuge, 16).address;
    std::memset(block, 1, scavenger.statistics().threads == 0 ? kHuge : 0);
    engine.deallocate_large(block);
    scavenger.notice();
  };
  std::size_t touched = 0;
  // An earlier test may have had a higher peak.
  const auto raise_peak = [&] {
    const std::size_t before = os::most_resident_bytes();
    for (; touched != kFile && os::most_resident_bytes() < before + kMiB; touched += kStep)
      std::memset(static_cast<char*>(file) + touched, 1, kStep);
  };
  // The first look comes after the first round, and before the second. From then on the thread sees
  // each rise, however seldom it runs, but the block may be in use just then.
  std::uint64_t rounds = 1;
  EXPECT_TRUE(eventually([&] {
    use_block();
    const Scavenger::Statistics now = scavenger.statistics();
    if (now.rounds > rounds) raise_peak();
    rounds = std::max<std::uint64_t>(rounds, now.rounds);
    return now.returned != 0;
  }));
  EXPECT_TRUE(has_ended());
  munmap(file, kFile);
}

TEST_F(ScavengerTest, StartsAgainAfterItEnded) {
  start(10);
  for (int round = 0; round < 3; ++round) {
    make_idle(2 * Scavenger::kWakeBytes);
    scavenger.notice();
    ASSERT_TRUE(eventually([this] { return engine.idle_bytes() == 0; })) << "round " << round;
    ASSERT_TRUE(has_ended());
  }
}

TEST_F(ScavengerTest, OneThreadIsEnoughForManyNotices) {
  start(200);
  make_idle(2 * Scavenger::kWakeBytes);
  for (int i = 0; i < 1000; ++i) scavenger.notice();
  EXPECT_LE(thread_count(), threads_before + 1);
  EXPECT_TRUE(has_ended());
}

TEST_F(ScavengerTest, ParkedCachesAreFlushedOnItsRounds) {
  start(10);
  {
    TestThread thread(malloc);
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(thread.allocate(500));
    for (void* p : blocks) thread.deallocate(p);
  }
  ASSERT_TRUE(engine.registry().has_parked());
  make_idle(2 * Scavenger::kWakeBytes);
  scavenger.notice();
  EXPECT_TRUE(eventually([this] { return !engine.registry().has_parked(); }));
  EXPECT_TRUE(has_ended());
}

/// Every page of some spans has a live object at its start, so no page is idle. The scavenger wakes
/// because many objects in these spans are free.
TEST_F(ScavengerTest, HolesAloneWakeItAndGoBack) {
  if (os::page_bytes() >= kPageBytes) GTEST_SKIP() << "an OS page is a page: it has no holes";
  start(20);
  constexpr std::size_t kBytes = 2048;
  const unsigned c = SizeClassMap::class_of(kBytes);
  std::vector<void*> objects;
  for (std::size_t i = 0; i < 3 * Scavenger::kWakeBytes / kBytes; ++i) {
    objects.push_back(engine.allocate_object(c).address);
    ASSERT_NE(objects.back(), nullptr);
  }
  const std::size_t before = engine.spans().decommitted_bytes();
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % 32 != 0) engine.deallocate_object(c, objects[i]);
  }
  ASSERT_LT(engine.page_heap().idle_pages() * kPageBytes, Scavenger::kWakeBytes);
  ASSERT_GE(engine.idle_bytes(), Scavenger::kWakeBytes);
  scavenger.notice();
  EXPECT_TRUE(eventually(
      [&] { return engine.spans().decommitted_bytes() >= before + 2 * Scavenger::kWakeBytes; }));
  EXPECT_TRUE(has_ended());
  EXPECT_EQ(scavenger.statistics().threads, 1u);
  EXPECT_NE(scavenger.statistics().rounds, 0u);
  EXPECT_GE(scavenger.statistics().returned, 2 * Scavenger::kWakeBytes);
  program.check();
  for (std::size_t i = 0; i < objects.size(); i += 32) engine.deallocate_object(c, objects[i]);
}

TEST_F(ScavengerTest, CachesOfThreadsThatWaitAreTakenOver) {
  if (!os::barrier_in_all_threads()) GTEST_SKIP() << "this kernel has no such barrier";
  start(20);
  std::atomic<bool> is_holding{false};
  std::latch may_end(1);
  std::thread idle([&] {
    TestThread thread(malloc);
    std::vector<void*> blocks;
    for (int i = 0; i < 200; ++i) blocks.push_back(thread.allocate(500));
    for (void* p : blocks) thread.deallocate(p);
    is_holding = true;
    may_end.wait();
    void* p = thread.allocate(500);
    EXPECT_NE(p, nullptr);
    thread.deallocate(p);
  });
  ASSERT_TRUE(eventually([&] { return is_holding.load(); }));
  const unsigned c = SizeClassMap::class_of(500);
  ASSERT_GT(engine.registry().count_objects(c), 50u);
  make_idle(2 * Scavenger::kWakeBytes);
  scavenger.notice();
  EXPECT_TRUE(eventually([&] { return engine.registry().count_objects(c) == 1; }));
  may_end.count_down();
  idle.join();
  EXPECT_TRUE(has_ended());
}

/// glibc frees a thread's memory while it holds a lock for which the start of a thread waits.
TEST_F(ScavengerTest, StartsNoThreadFromAFreeOfTheCLibrarys) {
  start(20);
  const auto* const c_library = reinterpret_cast<const void*>(&::getppid);
  if (os::may_start_thread(c_library)) GTEST_SKIP() << "this one holds no such lock";
  TestThread thread(malloc);
  std::array<void*, 3> blocks;
  for (void*& block : blocks) block = thread.allocate(kMiB);
  void* const object = thread.allocate(100);
  make_idle(2 * Scavenger::kWakeBytes);
  malloc.deallocate_slowly(thread.state, blocks[0], {}, c_library);
  // A heap that has grown returns idle memory by itself, once.
  make_idle(2 * Scavenger::kWakeBytes);
  malloc.deallocate_slowly(thread.state, blocks[1], {}, c_library);
  malloc.deallocate_slowly(thread.state, object, {}, c_library);
  EXPECT_EQ(scavenger.statistics().threads, 0u);
  malloc.deallocate_slowly(thread.state, blocks[2], {});
  EXPECT_EQ(scavenger.statistics().threads, 1u) << "the program's own free makes up for it";
  EXPECT_TRUE(has_ended());
}

TEST_F(ScavengerTest, ThreadsGoOnWhileItWorks) {
  start(2);
  run_together(3, [this](int t) {
    for (int round = 0; round < 30; ++round) {
      std::vector<char*> blocks;
      for (std::size_t i = 0; i < 12; ++i) {
        blocks.push_back(
            static_cast<char*>(engine.allocate_large(kMiB - i * kPageBytes, 16).address));
        ASSERT_NE(blocks.back(), nullptr);
        for (std::size_t k = 0; k < kMiB / 4; k += 65536) blocks.back()[k] = static_cast<char>(t);
      }
      for (char* p : blocks) {
        for (std::size_t k = 0; k < kMiB / 4; k += 65536) ASSERT_EQ(p[k], static_cast<char>(t));
        engine.deallocate_large(p);
        scavenger.notice();
      }
    }
  });
  scavenger.notice();
  EXPECT_TRUE(eventually([this] { return engine.idle_bytes() < Scavenger::kWakeBytes; }));
  EXPECT_TRUE(has_ended());
}

}  // namespace
}  // namespace strata
