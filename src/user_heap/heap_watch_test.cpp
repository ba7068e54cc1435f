// Profiles and guard pages of heaps, and verified frees.

#include <strata/heap.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "malloc/process.h"
#include "os/emulation.h"
#include "os/file.h"
#include "os/page_source.h"
#include "profile/site_report.h"
#include "user_heap/heap_environment.h"
#include "user_heap/heap_table.h"
#include "user_heap/named_heap_test.h"

namespace strata {
namespace {

/// The profile's sums over the heaps with this name.
Site::Sums sums_of(const char* name) {
  Site::Sums all{};
  SiteTable& sites = g_heap_table.profile().sites();
  for (std::uint32_t id = 1; id <= sites.count(); ++id) {
    const Site& site = sites.site(id);
    if (site.heap == nullptr || std::strcmp(site.heap->text, name) != 0) continue;
    const Site::Sums one = site.sums();
    all.allocated_objects += one.allocated_objects;
    all.allocated_bytes += one.allocated_bytes;
    all.live_objects += one.live_objects;
    all.live_bytes += one.live_bytes;
  }
  return all;
}

/// The difference since `before`.
Site::Sums sums_since(const Site::Sums& before, const char* name) {
  Site::Sums now = sums_of(name);
  now.allocated_objects -= before.allocated_objects;
  now.allocated_bytes -= before.allocated_bytes;
  return now;
}

struct HeapProfileTest : ::testing::Test {
  ~HeapProfileTest() override {
    Heap::stop_profile();
    g_heap_table.profile().sites().check_invariants();
  }
};

TEST_F(HeapProfileTest, CountsWhatEachHeapAllocatesUnderItsName) {
  const Site::Sums earlier = sums_of("made before");
  const Site::Sums sooner = sums_of("made after");
  Heap before(named("made before"));
  std::vector<void*> warm;
  for (int i = 0; i < 100; ++i) warm.push_back(before.allocate(100));
  for (void* p : warm) before.deallocate(p);
  ASSERT_TRUE(Heap::start_profile(1));
  Heap after(named("made after"));
  void* small[10];
  for (void*& p : small) p = before.allocate(100);
  for (int i = 0; i < 7; ++i) (void)after.allocate(3 * kMiB);
  void* large = after.allocate_aligned(200'000, 4096);
  for (int i = 0; i < 4; ++i) before.deallocate(small[i]);
  after.deallocate(large);
  EXPECT_EQ(sums_since(earlier, "made before").allocated_objects, 10u);
  EXPECT_EQ(sums_since(earlier, "made before").allocated_bytes, 1000u);
  EXPECT_EQ(sums_of("made before").live_objects, 6u);
  EXPECT_EQ(sums_since(sooner, "made after").allocated_bytes, 21 * kMiB + 200'000);
  EXPECT_EQ(sums_of("made after").live_objects, 7u);
  Heap::stop_profile();
  (void)before.allocate(100);
  (void)Heap(named("made after")).allocate(100);
  for (int i = 4; i < 10; ++i) before.deallocate(small[i]);
  EXPECT_EQ(sums_since(earlier, "made before").allocated_objects, 10u);
  EXPECT_EQ(sums_of("made before").live_objects, 0u) << "frees count after the stop, too";
  EXPECT_EQ(sums_since(sooner, "made after").allocated_objects, 8u);
  before.check_invariants();
  after.check_invariants();
}

TEST_F(HeapProfileTest, ARawBlockOfAProfileIsFreedAsOneAfterItsEnd) {
  ASSERT_TRUE(Heap::start_profile(1));
  Heap heap(named("raw"));
  const Heap::SizeClass size_class = Heap::size_class_of(72);
  void* p = heap.allocate_raw(size_class);
  EXPECT_EQ(sums_of("raw").live_objects, 1u);
  Heap::stop_profile();
  heap.deallocate(heap.allocate(72));  // the thread's bins are back
  heap.deallocate_raw(p, size_class);
  EXPECT_EQ(sums_of("raw").live_objects, 0u);
  EXPECT_NE(heap.allocate(72), p);
  heap.release_memory();
  heap.check_invariants();
}

TEST_F(HeapProfileTest, WhatIsLeftInAHeapThatIsResetOrEndsCountsAsFreed) {
  ASSERT_TRUE(Heap::start_profile(1));
  const Site::Sums before = sums_of("fleeting");
  Heap::Options options = named("fleeting");
  for (const auto checks : {Heap::Checks::kBasic, Heap::Checks::kFrees, Heap::Checks::kFull}) {
    options.checks = checks;
    Heap heap(options);
    for (int round = 0; round < 2; ++round) {
      for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}, 4 * kMiB})
        (void)heap.allocate(bytes);
      EXPECT_EQ(sums_of("fleeting").live_objects, 3u);
      if (round == 0) heap.reset();
    }
    heap.check_invariants();
  }
  EXPECT_EQ(sums_of("fleeting").live_objects, 0u);
  EXPECT_EQ(sums_of("fleeting").live_bytes, 0u);
  EXPECT_EQ(sums_since(before, "fleeting").allocated_objects, 18u);
}

TEST_F(HeapProfileTest, ManyNamesEndInOne) {
  MetadataArena metadata{os::kernel_pages()};
  SiteTable sites(metadata);
  for (std::uint32_t i = 0; i < SiteTable::kMostLabels + 50; ++i) {
    const std::string name = "request " + std::to_string(i);
    const HeapLabel* const label = sites.label(name);
    ASSERT_NE(label, nullptr);
    EXPECT_EQ(label->text, i + 1 < SiteTable::kMostLabels ? name : "others");
    EXPECT_EQ(sites.label(name), label);
  }
  EXPECT_STREQ(sites.label("request 7")->text, "request 7");
  EXPECT_EQ(sites.labels()->number, SiteTable::kMostLabels);
}

TEST_F(HeapProfileTest, TheReportOfWhatIsLiveNamesTheHeaps) {
  constexpr std::size_t kRate = 1;
  MetadataArena metadata{os::kernel_pages()};
  SiteTable sites(metadata);
  const auto report = [&] {
    std::string text(10'000, '\0');
    BufferSink sink(text.data(), text.size());
    write_live_sites(sites, kRate, 50, sink, os::kernel_pages());
    text.resize(sink.length());
    return text;
  };
  const std::uintptr_t frame = 16;
  sites.site(sites.intern(&frame, 1, kRate)).add(4 << 20, 50);
  EXPECT_EQ(report().find("of these"), std::string::npos);
  EXPECT_NE(report().find("strata: 50 bytes in 1 allocation by\n"), std::string::npos);
  for (const char* name : {"tenant\n7", ""}) {
    Site& site = sites.site(sites.intern(&frame, 1, kRate, sites.label(name)));
    for (int i = 0; i < 3; ++i) site.add(64 << 20, 100);
  }
  const std::string text = report();
  for (const char* line : {"strata: 650 bytes in 7 allocations of process ", "from 3 places\n",
                           "strata: of these 300 bytes in 3 allocations in the heap 'tenant?7'\n",
                           "strata: of these 300 bytes in 3 allocations in the heap 'unnamed'\n",
                           "strata: of these 50 bytes in 1 allocation in the malloc\n",
                           "strata: 300 bytes in 3 allocations in the heap 'tenant?7' by\n",
                           "strata: 50 bytes in 1 allocation by\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
  }
}

TEST_F(HeapProfileTest, StartsAndStopsWhileThreadsAllocateAndHeapsComeAndGo) {
  std::atomic<int> running{4};
  Heap shared(named("shared"));
  std::thread switcher([&] {
    while (running != 0) {
      EXPECT_TRUE(Heap::start_profile(4096));
      Heap::stop_profile();
    }
  });
  run_together(4, [&](int t) {
    for (int round = 0; round < 60; ++round) {
      Heap own(named("own"));
      std::vector<void*> live;
      for (std::size_t i = 0; i < 100; ++i) {
        (void)own.allocate(i * 50);
        live.push_back(shared.allocate(i * static_cast<std::size_t>(t + 1) * 30));
      }
      for (void* p : live) shared.deallocate(p);
    }
    --running;
  });
  switcher.join();
  EXPECT_EQ(sums_of("own").live_objects, 0u);
  EXPECT_EQ(sums_of("shared").live_objects, 0u);
  shared.check_invariants();
  EXPECT_EQ(shared.statistics().live, 0u);
}

TEST(HeapEnvironment, TheHeapsFileIsNamedAfterTheProfiles) {
  os::Path out;
  const auto named_after = [&](const std::string& path) {
    return write_name_of_heaps(path, out) ? std::string(out.view()) : std::string();
  };
  EXPECT_EQ(named_after("app.pb.gz"), "app.heaps.pb.gz");
  EXPECT_EQ(named_after("/tmp/x.d/%p.pb"), "/tmp/x.d/%p.heaps.pb");
  EXPECT_EQ(named_after("x.d/profile"), "x.d/profile.heaps");
  EXPECT_EQ(named_after("x/.hidden"), "x/.hidden.heaps");
  const std::string longest(4089, 'x');
  EXPECT_EQ(named_after(longest).size(), 4095u);
  EXPECT_EQ(named_after('x' + longest), "");
}

// Heaps with guard pages.

Heap::Options guarded(const char* name) {
  Heap::Options options = named(name);
  options.guard_rate = 1;
  return options;
}

TEST(HeapGuards, BlocksAreFreedResetAndEndedAsOthers) {
  const auto mappings = [] {
    os::LineReader maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string_view line; maps.next(line);) ++count;
    return count;
  };
  const std::size_t before = mappings();
  for (int round = 0; round < 8; ++round) {
    Heap heap(guarded("guarded"));
    std::vector<char*> blocks;
    for (std::size_t i = 0; i < 120; ++i) {
      blocks.push_back(static_cast<char*>(heap.allocate(i * 100)));
      ASSERT_NE(blocks.back(), nullptr);
      std::memset(blocks.back(), 1, i * 100);
      ASSERT_TRUE(heap.owns(blocks.back()));
      ASSERT_EQ(heap.usable_size(blocks.back()), i * 100) << "it is not guarded";
    }
    ASSERT_EQ(heap.usable_size(heap.allocate(300'000)), 300'000u) << "nor is a longer one";
    heap.check_invariants();
    if (round % 2 != 0) continue;
    for (std::size_t i = 0; i < 60; ++i) heap.deallocate(blocks[i]);
    heap.reset();
    EXPECT_EQ(heap.statistics().live, 0u);
    heap.check_invariants();
    void* p = heap.reallocate(nullptr, 10);
    p = heap.reallocate(p, 5000);
    heap.deallocate(p);
    EXPECT_EQ(heap.statistics().live, 0u);
  }
  EXPECT_LT(mappings(), before + 120) << "a heap's guarded blocks stayed mapped";
}

TEST(HeapGuards, OneInSoManyIsGuardedInEachThread) {
  Heap::Options options = guarded("guarded");
  options.guard_rate = 100;
  Heap heap(options);
  std::atomic<int> count{0};
  run_together(3, [&](int) {
    for (int i = 0; i < 10'000; ++i) {
      void* p = heap.allocate(100);
      if (heap.usable_size(p) == 100) ++count;  // of a class it has 112
      heap.deallocate(p);
    }
  });
  // 300 are expected; the bounds are ten standard deviations.
  EXPECT_GT(count, 300 - 175);
  EXPECT_LT(count, 300 + 175);
  heap.check_invariants();
}

TEST(HeapGuards, WhereTheHardLimitForbidsThemBlocksAreServedWithout) {
  for (const auto checks : {Heap::Checks::kBasic, Heap::Checks::kFrees, Heap::Checks::kFull}) {
    Heap::Options options = guarded("small");
    options.checks = checks;
    options.hard_limit_bytes = 512 << 10;
    Heap heap(options);
    void* const p = heap.allocate(100);
    EXPECT_NE(p, nullptr);
    heap.check_invariants();
    heap.deallocate(p);
    EXPECT_LE(heap.statistics().peak, options.hard_limit_bytes);
  }
}

struct HeapWatchDeathTest : ::testing::Test {
  HeapWatchDeathTest() { ::testing::FLAGS_gtest_death_test_style = os::kSafestDeathTests; }
  Heap session{guarded("session")};
  Heap cache{named("cache")};
};

TEST_F(HeapWatchDeathTest, AnAccessToAFreedOneOrBeyondItEndsTheProgram) {
  const std::size_t bytes = os::page_bytes();
  auto* const p = static_cast<volatile char*>(session.allocate(bytes));
  EXPECT_DEATH(p[bytes] = 1; p[-1] = 1, std::string("(overflow|underflow) of 0x.*: the program ") +
                                            os::kWrote +
                                            " at offset .*\\(in the heap 'session'\\)");
  EXPECT_DEATH(session.deallocate(const_cast<char*>(p), bytes - 1),
               "mismatched free_sized of 0x.*\\(in the heap 'session'\\)");
  session.deallocate(const_cast<char*>(p));
  EXPECT_DEATH(p[7] = 1, "use after free of 0x.*\\(in the heap 'session'\\)");
  EXPECT_DEATH(session.deallocate(const_cast<char*>(p)),
               "double free of 0x.*\\(in the heap 'session'\\)");
}

TEST_F(HeapWatchDeathTest, AGuardedBlockFreedElsewhereNamesBoth) {
  void* p = session.allocate(100);
  EXPECT_DEATH(cache.deallocate(p),
               "0x.*: it belongs to the heap 'session', not to the heap 'cach");
  (void)cache.allocate(100);
  EXPECT_DEATH(cache.deallocate(p),
               "0x.*: it belongs to the heap 'session', not to the heap 'cach");
  EXPECT_DEATH(static_cast<void>(cache.reallocate(p, 9)), "belongs to the heap 'session', not to");
  EXPECT_DEATH(static_cast<void>(cache.usable_size(p)), "belongs to the heap 'session', not to");
  EXPECT_DEATH(deallocate(p), "it belongs to the heap 'session', not to the malloc");
  Heap other(guarded("other"));
  (void)other.allocate(100);
  EXPECT_DEATH(other.deallocate(p), "it belongs to the heap 'session', not to the heap 'other'");
}

TEST_F(HeapWatchDeathTest, AGuardedBlockOfTheMallocIsToldFromAHeaps) {
  EXPECT_DEATH(
      {
        deallocate(allocate(1));
        g_malloc.begin_guards(1, 1);
        void* p = allocate(100);
        session.deallocate(p);
      },
      "it belongs to the malloc, not to the heap 'session'");
}

TEST_F(HeapWatchDeathTest, ASampledBlockFreedElsewhereNamesBoth) {
  ASSERT_TRUE(Heap::start_profile(1));
  Heap sampled(named("sampled"));
  (void)cache.allocate(100);
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}, 4 * kMiB}) {
    void* p = sampled.allocate(bytes);
    EXPECT_DEATH(cache.deallocate(p), "it belongs to the heap 'sampled', not to the heap 'cache'");
  }
  Heap::stop_profile();
}

// Heaps that verify every free.

TEST_F(HeapWatchDeathTest, UnderEachLevelAFreeIntoTheWrongHeapNamesBoth) {
  for (const auto mine : {Heap::Checks::kBasic, Heap::Checks::kFrees, Heap::Checks::kFull}) {
    Heap::Options options = named("mine");
    options.checks = mine;
    Heap owner(options);
    for (const auto level : {Heap::Checks::kFrees, Heap::Checks::kFull}) {
      options.name = "other";
      options.checks = level;
      Heap other(options);
      (void)other.allocate(100);
      for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}, 4 * kMiB}) {
        void* p = owner.allocate(bytes);
        EXPECT_DEATH(other.deallocate(p), "it belongs to the heap 'mine', not to the heap 'other'")
            << static_cast<int>(mine) << static_cast<int>(level) << bytes;
        EXPECT_DEATH(static_cast<void>(other.reallocate(p, 7)), "heap 'mine', not to the heap 'ot");
      }
    }
  }
}

TEST_F(HeapWatchDeathTest, VerifiedFreesFindEveryBadOneAtOnce) {
  Heap::Options options = named("verified");
  options.checks = Heap::Checks::kFrees;
  Heap heap(options);
  auto* a = static_cast<char*>(heap.allocate(100));
  void* b = heap.allocate(100);
  EXPECT_DEATH(heap.deallocate(a + 16), "invalid free of 0x");
  EXPECT_DEATH(heap.deallocate(b, 5000), "mismatched free_sized of 0x");
  EXPECT_EQ(heap.usable_size(a), 112u);
  heap.deallocate(a);
  heap.deallocate(b);
  EXPECT_DEATH(heap.deallocate(a), "double free of 0x.*: the object is free already");
  EXPECT_DEATH(static_cast<void>(heap.reallocate(a, 200)), "invalid realloc of 0x");
  run_together(3, [&](int) {
    std::vector<void*> live;
    for (std::size_t i = 0; i < 3000; ++i) {
      live.push_back(heap.allocate(i));
      if (i % 3 == 0) heap.deallocate(live[i / 2]), live[i / 2] = nullptr;
    }
    for (void* p : live) heap.deallocate(p);
  });
  heap.check_invariants();
  EXPECT_EQ(heap.statistics().live, 0u);
}

}  // namespace
}  // namespace strata
