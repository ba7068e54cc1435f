#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "malloc/malloc_in_test.h"

namespace strata {
namespace {

/// A program that always does the same: sizes of all kinds, frees, alignment, growth. It notes what
/// it got, and goes on without what was refused.
class ScriptedProgram {
 public:
  explicit ScriptedProgram(MallocInstance& malloc) : thread_(malloc) {}

  void run() {
    std::uint32_t state = 1;
    const auto next = [&state](std::uint32_t limit) {
      state = state * 1664525u + 1013904223u;
      return (state >> 8) % limit;
    };
    for (int i = 0; i < 400; ++i) {
      const std::uint32_t action = next(10);
      if (action < 6 || blocks_.empty()) {
        allocate(std::size_t{16} << next(18), action == 0 ? std::size_t{16} << next(18) : 16);
      } else if (action < 8) {
        deallocate(next(static_cast<std::uint32_t>(blocks_.size())));
      } else {
        reallocate(next(static_cast<std::uint32_t>(blocks_.size())), std::size_t{16} << next(19));
      }
    }
  }

  /// Checks that every block still holds what was written into it, frees all, and ends the thread.
  void finish() {
    while (!blocks_.empty()) deallocate(blocks_.size() - 1);
    thread_.end();
  }

  int refusals() const { return refusals_; }

 private:
  struct Block {
    unsigned char* address;
    std::size_t bytes;
    unsigned char tag;
  };

  void allocate(std::size_t bytes, std::size_t alignment) {
    auto* p = static_cast<unsigned char*>(thread_.allocate(bytes, alignment));
    if (p == nullptr) {
      ++refusals_;
      return;
    }
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    write({p, bytes, static_cast<unsigned char>(blocks_.size() + 1)});
  }
  void deallocate(std::size_t index) {
    check(blocks_[index]);
    thread_.deallocate(blocks_[index].address);
    blocks_[index] = blocks_.back();
    blocks_.pop_back();
  }
  void reallocate(std::size_t index, std::size_t bytes) {
    Block& block = blocks_[index];
    check(block);
    auto* p = static_cast<unsigned char*>(thread_.reallocate(block.address, bytes));
    if (p == nullptr) {
      ++refusals_;
      check(block);
      return;
    }
    block = {p, std::min(block.bytes, bytes), block.tag};
    check_first(block);
    const Block resized{p, bytes, block.tag};
    blocks_[index] = blocks_.back();
    blocks_.pop_back();
    write(resized);
  }

  // The first and the last bytes show an overlap; touching all would cost a fault per OS page.
  void write(Block block) {
    const std::size_t part = std::min<std::size_t>(block.bytes, 64);
    std::memset(block.address, block.tag, part);
    std::memset(block.address + block.bytes - part, block.tag, part);
    blocks_.push_back(block);
  }
  static void check_first(const Block& block) {
    for (std::size_t i = 0; i < std::min<std::size_t>(block.bytes, 64); ++i)
      ASSERT_EQ(block.address[i], block.tag);
  }
  static void check(const Block& block) {
    check_first(block);
    for (std::size_t i = 0; i < std::min<std::size_t>(block.bytes, 64); ++i)
      ASSERT_EQ(block.address[block.bytes - 1 - i], block.tag);
  }

  TestThread thread_;
  std::vector<Block> blocks_;
  int refusals_ = 0;
};

/// Runs the script with refusals arranged by `refuse`, and checks that they lose nothing.
/// \returns  How many calls were refused.
template <typename Refuse>
std::size_t run_with_refusals(Refuse refuse) {
  TestMalloc program;
  program.start();
  refuse(program.pages);
  std::size_t refused;
  {
    ScriptedProgram script(program.malloc);
    script.run();
    refused = program.pages.refused_calls();
    program.check();
    program.pages.refuse_nothing();
    program.pages.limit_mapped_bytes(~std::size_t{0});
    // The malloc works on, with what the refusals left behind.
    ScriptedProgram again(program.malloc);
    again.run();
    EXPECT_EQ(again.refusals(), 0);
    program.check();
    script.finish();
    again.finish();
  }
  program.check_nothing_is_left();
  return refused;
}

TEST(EngineOutOfMemory, TheScriptItselfNeedsNoRefusals) {
  EXPECT_EQ(run_with_refusals([](os::FakePageSource&) {}), 0u);
}

TEST(EngineOutOfMemory, OneRefusalAtAnyPointLosesNothing) {
  for (std::size_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    const std::size_t refused =
        run_with_refusals([n](os::FakePageSource& pages) { pages.refuse_call(n); });
    if (refused == 0 || ::testing::Test::HasFailure()) break;
  }
}

TEST(EngineOutOfMemory, RefusalsFromAnyPointOnLoseNothing) {
  for (std::size_t n = 1;; ++n) {
    SCOPED_TRACE(n);
    const std::size_t refused =
        run_with_refusals([n](os::FakePageSource& pages) { pages.refuse_from_call(n); });
    if (refused == 0 || ::testing::Test::HasFailure()) break;
  }
}

TEST(EngineOutOfMemory, ALimitOfAddressSpaceAnywhereLosesNothing) {
  for (std::size_t mib = 0; mib < 64; mib += 5) {
    SCOPED_TRACE(mib);
    run_with_refusals([mib](os::FakePageSource& pages) {
      pages.limit_mapped_bytes(pages.mapped_bytes() + mib * kMiB);
    });
    if (::testing::Test::HasFailure()) break;
  }
}

TEST(EngineOutOfMemory, AStartThatIsRefusedCanBeTriedAgain) {
  for (std::size_t n = 1; n < 12; ++n) {
    TestMalloc program;
    program.pages.refuse_from_call(n);
    if (program.start(program.malloc)) {
      EXPECT_TRUE(program.engine.is_started());
    } else {
      EXPECT_FALSE(program.engine.is_started());
      program.pages.refuse_nothing();
      EXPECT_TRUE(program.start(program.malloc));
    }
    program.pages.refuse_nothing();
    ScriptedProgram script(program.malloc);
    script.run();
    EXPECT_EQ(script.refusals(), 0);
    script.finish();
    program.check_nothing_is_left();
  }
}

/// Allocates blocks of one size until there are none, and frees them.
/// \returns  how many bytes there were
std::size_t fill(TestMalloc& program, std::size_t bytes) {
  TestThread thread(program.malloc);
  std::vector<void*> blocks;
  while (void* const p = thread.allocate(bytes)) blocks.push_back(p);
  for (void* const p : blocks) thread.deallocate(p);
  return blocks.size() * bytes;
}

TEST(EngineOutOfMemory, WhatIsFreeServesEveryOtherSizeAtALimitOfAddressSpace) {
#ifdef __SANITIZE_THREAD__  // In one thread it finds nothing, and two million objects take minutes.
  constexpr std::size_t kSizes[] = {400, 9000, 300'000, 5'000'000};
#else
  constexpr std::size_t kSizes[] = {16, 400, 9000, 300'000, 5'000'000};
#endif
  for (const auto checks : {Options::Checks::kBasic, Options::Checks::kFrees}) {
    for (const std::size_t first : kSizes) {
      for (const std::size_t then : kSizes) {
        SCOPED_TRACE(std::to_string(first) + " bytes, then " + std::to_string(then));
        TestMalloc program;
        program.start({.checks = checks});
        program.pages.limit_mapped_bytes(program.pages.mapped_bytes() + 32 * kMiB);
        // The rest is bookkeeping, and pieces too short for the size. How many depends on where the
        // kernel puts the regions.
        EXPECT_GE(fill(program, first), 20 * kMiB);
        EXPECT_GE(fill(program, then), 20 * kMiB);
        program.check_nothing_is_left();
      }
    }
  }
}

TEST(EngineOutOfMemory, RequestsThatAreRefusedDoNotUnmapWhatTheNextBlocksNeed) {
  TestMalloc program;
  program.start();
  program.pages.limit_mapped_bytes(program.pages.mapped_bytes() + 32 * kMiB);
  fill(program, 300'000);
  TestThread thread(program.malloc);
  bool is_spared = false;
  // The next pass is a millisecond later, or more: one of a few requests is within it.
  for (int i = 0; i < 100 && !is_spared; ++i) {
    void* blocks[40];
    for (void*& block : blocks) block = thread.allocate(300'000);
    for (void* const block : blocks) thread.deallocate(block);
    const std::size_t before = program.pages.calls(os::FakePageSource::kUnmap);
    ASSERT_EQ(thread.allocate(64 * kMiB), nullptr);
    is_spared = program.pages.calls(os::FakePageSource::kUnmap) == before;
  }
  EXPECT_TRUE(is_spared);
  EXPECT_NE(thread.allocate(20 * kMiB), nullptr) << "what is free is enough for this";
}

/// A program with much idle memory requests something that it cannot get in any case.
void expect_nothing_goes_back(const Options& options, std::size_t too_much) {
  TestMalloc program;
  program.start(options);
  TestThread thread(program.malloc);
  void* const small = thread.allocate(5000);
  void* const huge = thread.allocate(3 * kMiB);
  for (const std::size_t bytes : {1000u, 300'000u, 2'000'000u}) {
    std::vector<void*> blocks;
    for (std::size_t left = 4 * kMiB; left >= bytes; left -= bytes)
      blocks.push_back(thread.allocate(bytes));
    for (void* const p : blocks) thread.deallocate(p);
  }
  const os::FakePageSource& pages = program.pages;
  const std::size_t held = program.statistics().limit.held;
  const auto calls = [&] {
    return pages.calls(os::FakePageSource::kUnmap) + pages.calls(os::FakePageSource::kDecommit);
  };
  const std::size_t before = calls();
  EXPECT_EQ(thread.allocate(too_much), nullptr);
  EXPECT_EQ(thread.allocate(too_much, 64), nullptr);
  EXPECT_EQ(thread.allocate(too_much, 4 * kMiB), nullptr);
  EXPECT_EQ(thread.allocate_zeroed(too_much), nullptr);
  EXPECT_EQ(thread.reallocate(small, too_much), nullptr);
  EXPECT_EQ(thread.reallocate(huge, too_much), nullptr);
  EXPECT_EQ(calls(), before);
  EXPECT_EQ(program.statistics().limit.held, held);
  program.check();
}

TEST(EngineOutOfMemory, NothingGoesBackForWhatNoMachineHas) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 62;
  for (const auto checks : {Options::Checks::kBasic, Options::Checks::kFull}) {
    Options options;
    options.checks = checks;
    expect_nothing_goes_back(options, kTooMuch);
    options.soft_limit = 100 * kMiB;
    expect_nothing_goes_back(options, kTooMuch);
  }
}

TEST(EngineOutOfMemory, NothingGoesBackForWhatTheHardLimitNeverAllows) {
  for (const auto checks : {Options::Checks::kBasic, Options::Checks::kFull}) {
    Options options;
    options.checks = checks;
    options.hard_limit = 64 * kMiB;
    expect_nothing_goes_back(options, 64 * kMiB + 1);
    expect_nothing_goes_back(options, std::size_t{1} << 62);
  }
}

}  // namespace
}  // namespace strata
