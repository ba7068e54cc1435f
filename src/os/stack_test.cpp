#include "os/stack.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"

namespace strata::os {
namespace {

// Clang cannot compile single functions with other options: then both kinds of frames are as the
// build says.
#if defined(__clang__)
#define COMPILED_WITH(...) [[gnu::noinline]]
#else
#define COMPILED_WITH(...) [[gnu::noinline, gnu::optimize(__VA_ARGS__)]]
#endif

constexpr std::size_t kCapacity = 64;

using Stack = std::vector<std::uintptr_t>;
using Take = std::size_t (*)(std::uintptr_t*, std::size_t);

/// The caller's stacks: one by the unwinder, then two of ours. All are taken by one call, so they
/// are equal.
struct Stacks {
  Stack unwound, captured, captured_again;
};
[[gnu::noinline]] Stacks take_stacks() {
  Stacks taken;
  struct {
    Take take;
    Stack* stack;
  } const volatile plan[] = {{&unwind_stack, &taken.unwound},
                             {&capture_stack, &taken.captured},
                             {&capture_stack, &taken.captured_again}};
#pragma GCC unroll 1
  for (const volatile auto& one : plan) {
    std::uintptr_t frames[kCapacity];
    const std::size_t depth = one.take(frames, kCapacity);
    one.stack->assign(frames, frames + depth);
  }
  return taken;
}

/// A random tree of calls through all kinds of frames. At its leaves the stacks are compared.
class Tree {
 public:
  explicit Tree(std::uint64_t seed) : random_(seed) {}

  std::size_t compared() const { return compared_; }
  std::size_t differing() const { return differing_; }

  void grow(unsigned depth) {
    if (depth == 0) return compare();
    switch (random_() % 9) {
      case 0:
        return in_small_frame(depth);
      case 1:
        return in_large_frame(depth);
      case 2:
        return in_variable_frame(depth);
      case 3:
        return in_aligned_frame(depth);
      case 4:
        return without_frame_pointer(depth, 1, 2, 3, 4, 5, 6, 7);
      case 5:
        return with_frame_pointer(depth);
      case 6:
        return below_the_c_library(depth);
      case 7:
        return behind_an_exception(depth);
      default:
        in_small_frame(depth / 2 + 1);
        return in_variable_frame(depth / 2 + 1);
    }
  }

 private:
  void compare() {
    const Stacks taken = take_stacks();
    ++compared_;
    if (taken.unwound.size() >= 3 && taken.captured == taken.unwound &&
        taken.captured_again == taken.unwound) {
      return;
    }
    ++differing_;
  }

  // Each function does something after its call; otherwise the call would be a jump, without a
  // frame.
  [[gnu::noinline]] void in_small_frame(unsigned depth) {
    grow(depth - 1);
    keep(&depth);
  }
  [[gnu::noinline]] void in_large_frame(unsigned depth) {
    volatile char room[5000];
    room[0] = 1;
    grow(depth - 1);
    keep(&room);
  }
  [[gnu::noinline]] void in_variable_frame(unsigned depth) {
    void* const room = __builtin_alloca(random_() % 3000 + 1);
    keep(room);
    grow(depth - 1);
    keep(room);
  }
  [[gnu::noinline]] void in_aligned_frame(unsigned depth) {
    alignas(128) volatile char room[256];
    room[0] = 1;
    keep(&room);
    grow(depth - 1);
    keep(&room);
  }
  COMPILED_WITH("O2", "omit-frame-pointer")
  void without_frame_pointer(unsigned depth, int a, int b, int c, int d, int e, int f, int g) {
    grow(depth - 1);
    sink_ = sink_ + a * b + c * d + e * f * g;
  }
  COMPILED_WITH("no-omit-frame-pointer")
  void with_frame_pointer(unsigned depth) {
    grow(depth - 1);
    keep(&depth);
  }
  [[gnu::noinline]] void below_the_c_library(unsigned depth) {
    struct Key {
      Tree* tree;
      unsigned depth;
    } key{this, depth}, element{};
    std::bsearch(&key, &element, 1, sizeof element, [](const void* wanted, const void*) {
      const auto* const found = static_cast<const Key*>(wanted);
      found->tree->grow(found->depth - 1);
      return 0;
    });
  }
  [[gnu::noinline]] void behind_an_exception(unsigned depth) {
    try {
      grow(depth / 2);
      throw depth;
    } catch (unsigned thrown) {
      grow(thrown - 1);
    }
  }
  [[gnu::noinline]] void keep(volatile void* p) { sink_ = sink_ + (p != nullptr); }

  std::mt19937_64 random_;
  std::size_t compared_ = 0;
  std::size_t differing_ = 0;
  volatile int sink_ = 0;
};

class CapturedStack : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(prepare_stacks()); }

  static void expect_equal(const Tree& tree) {
    EXPECT_GT(tree.compared(), 0u);
    EXPECT_EQ(tree.differing(), 0u) << "of " << tree.compared();
  }
};

TEST_F(CapturedStack, IsWhatTheUnwinderFindsInRandomCallTrees) {
  const StackCounts before = stack_counts();
  Tree tree(seed_of_this_run());
  for (unsigned i = 0; i < 3000; ++i) tree.grow(i % 30);
  expect_equal(tree);
  const StackCounts after = stack_counts();
  // All these frames have rules.
  EXPECT_GE(after.by_rules - before.by_rules, 2 * tree.compared());
  EXPECT_EQ(after.by_unwinder, before.by_unwinder);
  EXPECT_EQ(after.differences, before.differences);
}

struct Trailed {
  Stack stack;
  StackTrail trail;
};

[[gnu::noinline]] Trailed take_with_trail() {
  Trailed taken;
  std::uintptr_t frames[kCapacity];
  const std::size_t depth = capture_stack_from(caller_place(), frames, kCapacity, taken.trail);
  taken.stack.assign(frames, frames + depth);
  return taken;
}

[[gnu::noinline]] Trailed one_way() {
  Trailed taken = take_with_trail();
  taken.trail.count += 0;
  return taken;
}

[[gnu::noinline]] Trailed another_way() {
  Trailed taken = take_with_trail();
  taken.trail.count += 0;
  return taken;
}

bool holds(const StackTrail& trail) {
  for (std::size_t i = 0; i < trail.count; ++i) {
    if (*reinterpret_cast<const std::uintptr_t*>(trail.words[i].address) != trail.words[i].value) {
      return false;
    }
  }
  return true;
}

TEST_F(CapturedStack, LeavesATrailThatHoldsAsLongAsItsCallersAreTheSame) {
  std::vector<Trailed> taken;
  // Read anew each time, so that all are called from one place.
  Trailed (*const volatile ways[])() = {&one_way, &another_way, &one_way};
#pragma GCC unroll 1
  for (const auto volatile& way : ways) taken.push_back(way());
  for (const Trailed& one : taken) {
    ASSERT_GE(one.stack.size(), 3u);
    EXPECT_TRUE(one.trail.is_whole);
    EXPECT_GE(one.trail.count, one.stack.size() - 2);
  }
  // The frames of this function and above are unchanged; those below are gone.
  const StackTrail& first = taken[0].trail;
  const StackTrail& third = taken[2].trail;
  EXPECT_EQ(taken[0].stack, taken[2].stack);
  ASSERT_EQ(first.count, third.count);
  for (std::size_t i = 0; i < first.count; ++i) {
    EXPECT_EQ(first.words[i].address, third.words[i].address);
    EXPECT_EQ(first.words[i].value, third.words[i].value);
  }
  EXPECT_NE(taken[0].stack, taken[1].stack);
  StackTrail outer = third;
  outer.count = 1;
  outer.words[0] = third.words[third.count - 1];
  EXPECT_TRUE(holds(outer));
}

TEST_F(CapturedStack, EndsAtTheCapacity) {
  std::uintptr_t frames[3] = {};
  EXPECT_EQ(capture_stack(frames, 2), 2u);
  EXPECT_EQ(frames[2], 0u);
  EXPECT_EQ(capture_stack(frames, 0), 0u);
}

TEST_F(CapturedStack, IsTheUnwindersInThreadsThatLearnAtOnce) {
  constexpr unsigned kThreads = 4;
  std::vector<Tree> trees;
  const std::uint64_t seed = seed_of_this_run();
  for (unsigned i = 0; i < kThreads; ++i) trees.emplace_back(seed + i);
  run_together(kThreads, [&](int t) {
    for (unsigned i = 0; i < 500; ++i) trees[static_cast<std::size_t>(t)].grow(i % 20);
  });
  for (const Tree& tree : trees) expect_equal(tree);
}

// These handlers allocate to keep what they find, which thread sanitizers forbid.
#ifndef __SANITIZE_THREAD__

Tree* g_tree = nullptr;

TEST_F(CapturedStack, IsTheUnwindersInSignalHandlersOnAnyStack) {
  std::vector<char> other_stack(256 * 1024);
  const stack_t alternate{other_stack.data(), 0, other_stack.size()};
  stack_t before{};
  ASSERT_EQ(sigaltstack(&alternate, &before), 0);
  Tree tree(seed_of_this_run());
  g_tree = &tree;
  for (const int flags : {0, SA_ONSTACK}) {
    struct sigaction action {};
    struct sigaction old {};
    action.sa_handler = [](int) { g_tree->grow(5); };
    action.sa_flags = flags;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
    for (unsigned i = 0; i < 50; ++i) {
      raise(SIGUSR1);
      tree.grow(i % 10);
    }
    sigaction(SIGUSR1, &old, nullptr);
  }
  sigaltstack(&before, nullptr);
  expect_equal(tree);
}

#endif

// Sanitizers have to be told of other stacks, and report misuse in generated code.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

ucontext_t g_main;
ucontext_t g_coroutine;

TEST_F(CapturedStack, IsTheUnwindersInCoroutines) {
  std::vector<char> other_stack(1024 * 1024);
  Tree tree(seed_of_this_run());
  g_tree = &tree;
  ASSERT_EQ(getcontext(&g_coroutine), 0);
  g_coroutine.uc_stack.ss_sp = other_stack.data();
  g_coroutine.uc_stack.ss_size = other_stack.size();
  g_coroutine.uc_link = &g_main;
  makecontext(
      &g_coroutine,
      +[] {
        for (unsigned i = 0; i < 100; ++i) {
          g_tree->grow(i % 20);
          swapcontext(&g_coroutine, &g_main);
        }
      },
      0);
  for (unsigned i = 0; i < 100; ++i) {
    tree.grow(i % 10);
    swapcontext(&g_main, &g_coroutine);
  }
  expect_equal(tree);
}

#ifdef __x86_64__
extern "C" void __register_frame(void* begin);
extern "C" void __deregister_frame(void* begin);

/// A function made at run time, with an unwind table: so many pushes of 0, padding, and a call of
/// its argument. The call is always at the same place, wherever the function begins.
class MadeCode {
 public:
  explicit MadeCode(void* page) : code_(static_cast<unsigned char*>(page)) {}

  void make(unsigned pushes, std::size_t padding) {
    std::memset(code_, 0x90, 256);
    for (unsigned i = 0; i < pushes; ++i) std::memcpy(code_ + 2 * i, "\x6a\x00", 2);
    call_end_ = 2 * 16 + padding + 2;
    const unsigned char tail[] = {0xff, 0xd7, 0x48,
                                  0x83, 0xc4, static_cast<unsigned char>(8 * pushes),
                                  0xc3};  // call *%rdi; add $n, %rsp; ret
    std::memcpy(code_ + call_end_ - 2, tail, sizeof tail);
    const unsigned char common[] = {20,   0,    0, 0, 0,    0, 0, 0, 1, 0, 1, 0x78,
                                    0x10, 0x0c, 7, 8, 0x90, 1, 0, 0, 0, 0, 0, 0};
    // The rule after the pushes holds from the first byte on: no stack is taken before.
    unsigned char own[] = {
        28, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0,    0,
        0,  0, 0, 0, 1,  0, 0, 0, 0, 0, 0, 0x0e, static_cast<unsigned char>(8 + 8 * pushes),
        0,  0, 0, 0, 0,  0};
    const auto begin = reinterpret_cast<std::uintptr_t>(code_);
    std::memcpy(own + 8, &begin, sizeof begin);
    unsigned char* const table = this->table();
    std::memcpy(table, common, sizeof common);
    std::memcpy(table + sizeof common, own, sizeof own);
    std::memset(table + sizeof common + sizeof own, 0, 4);
    __register_frame(table);
  }
  void take_away() { __deregister_frame(table()); }
  void call(void (*callee)()) { reinterpret_cast<void (*)(void (*)())>(code_)(callee); }

 private:
  unsigned char* table() { return code_ + 2048; }

  unsigned char* const code_;
  std::size_t call_end_ = 0;
};

Stacks g_taken;

TEST_F(CapturedStack, NeverFollowsRulesOfCodeThatWasReplaced) {
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) GTEST_SKIP() << "no code can be made here";
  MadeCode code(page);
  const auto take = +[] { g_taken = take_stacks(); };
  for (unsigned round = 0; round < 50; ++round) {
    // The last bytes of the call are near the first pushes: the bytes around the call differ
    // between the two functions.
    code.make(1 + round % 2 * 2, 0);
    for (int i = 0; i < 3; ++i) {
      code.call(take);
      ASSERT_GT(g_taken.unwound.size(), 4u);
      EXPECT_EQ(g_taken.captured, g_taken.unwound);
      EXPECT_EQ(g_taken.captured_again, g_taken.unwound);
    }
    code.take_away();
  }
  munmap(page, 4096);
}

TEST_F(CapturedStack, SoonForgetsRulesOfCodeThatWasReplacedByNearlyTheSame) {
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) GTEST_SKIP() << "no code can be made here";
  MadeCode code(page);
  const auto take = +[] { g_taken = take_stacks(); };
  // The 16 bytes that end with the call are the same.
  code.make(1, 62);
  code.call(take);
  EXPECT_EQ(g_taken.captured_again, g_taken.unwound);
  code.take_away();
  code.make(3, 62);
  const std::uint64_t differences = stack_counts().differences;
  unsigned calls = 0;
  do {
    code.call(take);
  } while (g_taken.captured_again != g_taken.unwound && ++calls < 3000);
  EXPECT_EQ(g_taken.captured_again, g_taken.unwound);
  EXPECT_GT(stack_counts().differences, differences);
  code.take_away();
  munmap(page, 4096);
}
#endif
#endif

}  // namespace
}  // namespace strata::os
