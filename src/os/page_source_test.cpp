#include "os/page_source.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "os/access_test.h"
#include "os/child_in_test.h"
#include "os/emulation.h"

namespace strata::os {
namespace {

constexpr std::size_t kTooMuch = std::size_t{1} << 60;

std::size_t pages(std::size_t count) { return count * page_bytes(); }

bool is_filled_with(const void* memory, std::size_t bytes, char value) {
  const char* at = static_cast<const char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (at[i] != value) return false;
  }
  return true;
}

/// Adds up what map_aligned() maps and unmaps through two other functions.
class BalancedPages final : public PageSource {
 public:
  void* map(std::size_t bytes) noexcept override {
    mapped += bytes;
    return PageSource::map(bytes);
  }
  bool unmap(void* address, std::size_t bytes) noexcept override {
    if (++unmaps == refused_unmap) return false;
    mapped -= bytes;
    return PageSource::unmap(address, bytes);
  }
  std::size_t mapped = 0;
  int unmaps = 0;
  int refused_unmap = 0;
};

TEST(PageSource, PageSizeIsAPowerOfTwo) {
  EXPECT_GE(page_bytes(), 4096u);
  EXPECT_EQ(page_bytes() & (page_bytes() - 1), 0u);
}

TEST(PageSource, MapsZeroPagesThatKeepWhatIsWritten) {
  PageSource& source = kernel_pages();
  void* p = source.map(pages(3));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(is_filled_with(p, pages(3), 0));
  std::memset(p, 'x', pages(3));
  EXPECT_TRUE(is_filled_with(p, pages(3), 'x'));
  source.unmap(p, pages(3));
}

TEST(PageSource, WhatIsMappedApartLiesBetweenPagesThatNobodyCanWrite) {
  PageSource& source = kernel_pages();
  char* const p = static_cast<char*>(source.map_apart(pages(3)));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(is_filled_with(p, pages(3), 0));
  std::memset(p, 'x', pages(3));
  EXPECT_TRUE(lies_apart(p, pages(3), "rw-p"));
  char* const table = static_cast<char*>(source.reserve_readable(pages(3)));
  ASSERT_NE(table, nullptr);
  EXPECT_TRUE(source.commit(table, pages(3)));
  EXPECT_TRUE(lies_apart(table, pages(3), "rw-p", "r--p")) << "all of it open";
  EXPECT_TRUE(source.unmap_apart(table, pages(3)));
  EXPECT_TRUE(source.unmap_apart(p, pages(3)));
  for (const char* edge : {p - 1, p + pages(3), table - 1, table + pages(3)})
    EXPECT_EQ(access_at(edge), "") << "what lies beside it goes with it";
}

/// Whether a core file would contain the mapping at this address.
bool is_in_core(const void* address) {
  std::ifstream lines("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool is_here = false;
  for (std::string line; std::getline(lines, line);) {
    std::uintptr_t start;
    std::uintptr_t end;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2)
      is_here = start <= wanted && wanted < end;
    if (is_here && line.starts_with("VmFlags:")) return line.find(" dd") == std::string::npos;
  }
  return true;
}

TEST(KernelPages, AGreatReservationIsInNoCoreFile) {
  if (kIsEmulated) GTEST_SKIP() << "the emulator says what its own mappings are";
  constexpr std::size_t kMany = std::size_t{1} << 30;
  const std::size_t page = page_bytes();
  auto* const many = static_cast<char*>(kernel_pages().reserve_readable(kMany));
  auto* const few = static_cast<char*>(kernel_pages().reserve_readable(page));
  if (many == nullptr) GTEST_SKIP() << "address space is limited";
  ASSERT_NE(few, nullptr);
  for (const char* each : {many - page, many, many + kMany}) EXPECT_FALSE(is_in_core(each));
  EXPECT_TRUE(is_in_core(few));
  kernel_pages().unmap_apart(many, kMany);
  kernel_pages().unmap_apart(few, page);
}

TEST(PageSource, MapsNothingApartThatIsTooLarge) {
  EXPECT_EQ(kernel_pages().map_apart(kTooMuch), nullptr);
  EXPECT_EQ(kernel_pages().map_apart(SIZE_MAX & ~(page_bytes() - 1)), nullptr);
}

TEST(PageSource, MapAtTakesAFreeAddress) {
  PageSource& source = kernel_pages();
  char* p = static_cast<char*>(source.map(pages(3)));
  ASSERT_NE(p, nullptr);
  source.unmap(p + pages(1), pages(1));
  ASSERT_EQ(source.map_at(p + pages(1), pages(1)), MapAt::kMapped);
  EXPECT_TRUE(is_filled_with(p + pages(1), pages(1), 0));
  p[pages(1)] = 'x';
  source.unmap(p, pages(3));
}

TEST(PageSource, MapAtNeverTakesWhatIsThere) {
  PageSource& source = kernel_pages();
  char* p = static_cast<char*>(source.map(pages(2)));
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', pages(2));
  EXPECT_EQ(source.map_at(p, pages(2)), MapAt::kInUse);
  EXPECT_EQ(source.map_at(p, kTooMuch), MapAt::kNoMemory);
  EXPECT_EQ(source.map_at(p + pages(1), pages(4)), MapAt::kInUse);  // overlaps by one page
  EXPECT_TRUE(is_filled_with(p, pages(2), 'x'));
  source.unmap(p, pages(2));
}

TEST(PageSource, MapAlignedStartsAtAMultipleAndKeepsNoSurplus) {
  for (std::size_t alignment = page_bytes() / 2; alignment <= 64u << 20; alignment *= 4) {
    for (std::size_t bytes : {pages(1), pages(3), pages(513)}) {
      BalancedPages source;
      void* p = source.map_aligned(bytes, alignment);
      ASSERT_NE(p, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
      EXPECT_EQ(source.mapped, bytes);
      std::memset(p, 'x', bytes);
      source.unmap(p, bytes);
    }
  }
}

TEST(PageSource, MapAlignedLosesNothingWhereTheKernelCutsNoEndOff) {
  for (int refused : {1, 2}) {
    BalancedPages source;
    source.refused_unmap = refused;
    // At least one end is cut off; with a block of one OS page, nearly always both.
    void* const p = source.map_aligned(pages(1), 64u << 20);
    EXPECT_EQ(source.mapped, p != nullptr ? pages(1) : 0u) << "the cut of end " << refused;
    EXPECT_TRUE(p == nullptr || refused == 2) << "an end that is left is lost";
    if (p != nullptr) source.unmap(p, pages(1));
  }
}

TEST(PageSource, MapAlignedRefusesASizeThatWrapsAround) {
  const std::size_t nearly_all = std::numeric_limits<std::size_t>::max() - page_bytes() + 1;
  EXPECT_EQ(kernel_pages().map_aligned(nearly_all, 2u << 20), nullptr);
}

TEST(PageSource, DecommittedPagesReadZeroAndTheirNeighboursStay) {
  PageSource& source = kernel_pages();
  char* p = static_cast<char*>(source.map(pages(4)));
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', pages(4));
  ASSERT_TRUE(source.decommit(p + pages(1), pages(2)));
  EXPECT_TRUE(is_filled_with(p, pages(1), 'x'));
  EXPECT_TRUE(is_filled_with(p + pages(1), pages(2), 0));
  EXPECT_TRUE(is_filled_with(p + pages(3), pages(1), 'x'));
  source.unmap(p, pages(4));
}

/// Ranges of one page each: every other page is decommitted, the others stay.
struct ByTurns {
  explicit ByTurns(std::size_t count) : bytes(pages(2 * count + 1)) {
    start = static_cast<char*>(kernel_pages().map(bytes));
    if (start == nullptr) return;
    std::memset(start, 'x', bytes);
    for (std::size_t i = 0; i < count; ++i) ranges.push_back({start + pages(2 * i), pages(1)});
  }
  ~ByTurns() { kernel_pages().unmap(start, bytes); }
  void decommit_each() { kernel_pages().decommit_each(ranges.data(), ranges.size()); }
  /// Whether all ranges but `kept` read as zero, and everything else is unchanged.
  bool are_zero(std::size_t kept = ~std::size_t{0}) const {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const char* const range = static_cast<char*>(ranges[i].address);
      if (!is_filled_with(range, pages(1), i != kept ? 0 : 'x')) return false;
      if (!is_filled_with(range + pages(1), pages(1), 'x')) return false;
      if (ranges[i].bytes != (i != kept ? pages(1) : 0)) return false;
    }
    return true;
  }
  const std::size_t bytes;
  char* start;
  std::vector<PageRange> ranges;
};

TEST(PageSource, DecommitsSeveralRangesAndNothingBetween) {
  for (const std::size_t count : {0u, 1u, 2u, 64u, 1500u}) {
    ByTurns by_turns(count);
    ASSERT_NE(by_turns.start, nullptr);
    errno = EDOM;
    by_turns.decommit_each();
    EXPECT_EQ(errno, EDOM);
    EXPECT_TRUE(by_turns.are_zero()) << count << " ranges";
  }
}

TEST(PageSource, SaysWhichRangeTheKernelRefusedAndDecommitsTheOthers) {
  for (const std::size_t refused : {0u, 1u, 5u, 7u}) {
    ByTurns by_turns(8);
    ASSERT_NE(by_turns.start, nullptr);
    void* const locked = by_turns.ranges[refused].address;
    // A system call, since sanitizers make the C library's mlock() lock nothing.
    if (syscall(SYS_mlock, locked, page_bytes()) != 0)
      GTEST_SKIP() << "no memory may be locked here";
    errno = EDOM;
    by_turns.decommit_each();
    EXPECT_EQ(errno, EDOM);
    EXPECT_TRUE(by_turns.are_zero(refused)) << "the one at " << refused << " is locked";
    syscall(SYS_munlock, locked, page_bytes());
  }
}

constexpr unsigned kProcessMadvise = 440;

/// How often the work, in a child, makes this system call; -1 if it cannot be traced here.
template <typename Work>
int calls_in_child(long number, Work work) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    work();
    _exit(0);
  }
  int calls = 0;
  int status = 0;
  bool is_traced = child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status) &&
                   ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD) == 0;
  while (is_traced && WIFSTOPPED(status)) {
    __ptrace_syscall_info info = {};
    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
    calls +=
        info.op == PTRACE_SYSCALL_INFO_ENTRY && info.entry.nr == static_cast<std::uint64_t>(number);
    is_traced =
        ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0 && waitpid(child, &status, 0) == child;
  }
  return is_traced && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? calls : -1;
}

TEST(PageSource, ARangeAbove2GiBLeavesTheCallForAllToTheOthers) {
  if (kIsEmulated) GTEST_SKIP() << "the emulator traces nothing";
  ByTurns by_turns(8);
  ASSERT_NE(by_turns.start, nullptr);
  const std::size_t long_bytes = std::size_t{3} << 30;
  void* const long_range = kernel_pages().map(long_bytes);
  if (long_range == nullptr) GTEST_SKIP() << "there are too few addresses";
  std::vector<PageRange> with_long = by_turns.ranges;
  with_long[3] = {long_range, long_bytes};
  const auto all_at_once = [&] {
    by_turns.decommit_each();
    by_turns.decommit_each();
  };
  if (calls_in_child(kProcessMadvise, all_at_once) != 2)
    GTEST_SKIP() << "the kernel decommits one range by one call, or nothing may be traced here";
  const int calls = calls_in_child(kProcessMadvise, [&] {
    kernel_pages().decommit_each(with_long.data(), with_long.size());
    by_turns.decommit_each();
  });
  EXPECT_EQ(calls, 4) << "up to the long range, in vain for it, after it; and for the others again";
  kernel_pages().decommit_each(with_long.data(), with_long.size());
  EXPECT_EQ(with_long[3].bytes, long_bytes);
  kernel_pages().unmap(long_range, long_bytes);
}

// A filter that knows only the calls of older allocators may end the process at any other call.
TEST(PageSource, DecommitsSeveralRangesBehindAFilterThatForbidsTheCallForAll) {
  if (kIsEmulated) GTEST_SKIP() << "the emulator has no filters";
  ByTurns by_turns(8);
  ASSERT_NE(by_turns.start, nullptr);
  by_turns.decommit_each();  // from now on it is known that the kernel has the call
  std::memset(by_turns.start, 'x', by_turns.bytes);
  const int status = status_in_child([&] {
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProcessMadvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
      return 2;
    by_turns.decommit_each();
    return by_turns.are_zero() ? 0 : 1;
  });
  ASSERT_TRUE(WIFEXITED(status)) << "killed by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no filter may be set here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(PageSource, AdviceKeepsTheContents) {
  PageSource& source = kernel_pages();
  const std::size_t bytes = 4u << 20;
  void* p = source.map_aligned(bytes, 2u << 20);
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', bytes);
  source.advise_huge(p, bytes);
  source.advise_small(p, bytes);
  EXPECT_TRUE(is_filled_with(p, bytes, 'x'));
  source.unmap(p, bytes);
}

TEST(PageSource, ATouchWritesZeroAndTakesTime) {
  PageSource& source = kernel_pages();
  char* p = static_cast<char*>(source.map(pages(2)));
  ASSERT_NE(p, nullptr);
  const std::size_t before = resident_bytes_in(p, pages(2));
  EXPECT_GT(source.touch(p + pages(1)), 0u);
  if (knows_pages()) {
    EXPECT_EQ(resident_bytes_in(p, pages(2)), before + pages(1));
  }
  EXPECT_TRUE(is_filled_with(p, pages(2), 0));
  source.unmap(p, pages(2));
}

TEST(PageSource, RemapKeepsTheContentsAndTheNewTailIsZero) {
  PageSource& source = kernel_pages();
  char* p = static_cast<char*>(source.map(pages(2)));
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', pages(2));
  p = static_cast<char*>(source.remap(p, pages(2), pages(300)));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(is_filled_with(p, pages(2), 'x'));
  EXPECT_TRUE(is_filled_with(p + pages(2), pages(298), 0));
  p = static_cast<char*>(source.remap(p, pages(300), pages(1)));
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(is_filled_with(p, pages(1), 'x'));
  source.unmap(p, pages(1));
}

/// Some kernels move mappings whenever they may.
TEST(PageSource, AMappingThatShrinksStaysWhereItIs) {
  PageSource& source = kernel_pages();
  char* p = static_cast<char*>(source.map(pages(300)));
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', pages(300));
  EXPECT_EQ(source.remap(p, pages(300), pages(2)), p);
  EXPECT_TRUE(is_filled_with(p, pages(2), 'x'));
  source.unmap(p, pages(2));
}

/// Bytes that one page table maps.
std::size_t table_bytes() { return pages(page_bytes() / sizeof(void*)); }

/// A mapping of five page tables that cannot grow where it is; the first page of each is written.
char* map_wedged(PageSource& source) {
  char* const p = static_cast<char*>(source.map(5 * table_bytes() + pages(1)));
  if (p == nullptr) return nullptr;
  for (std::size_t i = 0; i < 5; ++i) std::memset(p + i * table_bytes(), 'x', pages(1));
  return p;
}

TEST(PageSource, ALongMappingThatMovesKeepsItsPlaceInPageTables) {
  PageSource& source = kernel_pages();
  const std::size_t bytes = 5 * table_bytes();
  char* const p = map_wedged(source);
  ASSERT_NE(p, nullptr);
  char* const moved = static_cast<char*>(source.remap(p, bytes, bytes + table_bytes()));
  ASSERT_NE(moved, nullptr);
  ASSERT_NE(moved, p);
  EXPECT_EQ((moved - p) % static_cast<std::ptrdiff_t>(table_bytes()), 0);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_TRUE(is_filled_with(moved + i * table_bytes(), pages(1), 'x'));
  EXPECT_TRUE(is_filled_with(moved + bytes, pages(1), 0));
  source.unmap(p + bytes, pages(1));
  source.unmap(moved, bytes + table_bytes());
}

TEST(PageSource, ALongMappingThatCannotMoveStaysWhole) {
  PageSource& source = kernel_pages();
  const std::size_t bytes = 5 * table_bytes();
  char* const p = map_wedged(source);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(source.remap(p, bytes, kTooMuch), nullptr);
  // Two mappings to the kernel from now on.
  ASSERT_TRUE(source.protect(p + table_bytes(), pages(1)));
  EXPECT_EQ(source.remap(p, bytes, bytes + table_bytes()), nullptr);
  EXPECT_TRUE(is_filled_with(p, pages(1), 'x'));
  EXPECT_TRUE(is_filled_with(p + 4 * table_bytes(), pages(1), 'x'));
  source.unmap(p, bytes + pages(1));
}

TEST(PageSource, ARefusedRemapLeavesTheOldMapping) {
  PageSource& source = kernel_pages();
  void* p = source.map(pages(2));
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', pages(2));
  EXPECT_EQ(source.remap(p, pages(2), kTooMuch), nullptr);
  EXPECT_TRUE(is_filled_with(p, pages(2), 'x'));
  source.unmap(p, pages(2));
}

TEST(PageSource, LeavesErrnoAloneWhateverTheKernelAnswers) {
  PageSource& source = kernel_pages();
  char* p = static_cast<char*>(source.map(pages(2)));
  ASSERT_NE(p, nullptr);
  errno = EDOM;  // what no system call here answers
  EXPECT_EQ(source.map(kTooMuch), nullptr);
  EXPECT_EQ(source.map_aligned(kTooMuch, 2u << 20), nullptr);
  EXPECT_EQ(source.map_at(p, pages(1)), MapAt::kInUse);
  EXPECT_FALSE(source.decommit(p + 1, page_bytes()));
  EXPECT_EQ(source.remap(p, pages(2), kTooMuch), nullptr);
  source.advise_huge(p + 1, page_bytes());
  source.advise_small(p + 1, page_bytes());
  source.unmap(p + 1, page_bytes());
  EXPECT_EQ(errno, EDOM);
  source.unmap(p, pages(2));
  EXPECT_EQ(errno, EDOM);
}

/// Cuts a mapping into single pages until the kernel allows no more mappings, then unmaps a page
/// that can no longer be cut out. Exits with 0 if its memory is gone all the same.
[[noreturn]] void unmap_without_mappings_left(std::size_t mapping_limit) {
  PageSource& source = kernel_pages();
  const std::size_t count = 2 * mapping_limit + 16;
  char* p = static_cast<char*>(source.map(pages(count)));
  if (p == nullptr) std::_Exit(2);
  std::size_t cut = 1;
  while (cut < count - 8 && mprotect(p + pages(cut), page_bytes(), PROT_NONE) == 0) cut += 2;
  if (cut >= count - 8) std::_Exit(3);
  char* victim = p + pages(count - 4);
  std::memset(victim, 'x', page_bytes());
  if (source.unmap(victim, page_bytes())) std::_Exit(4);
  // The page is still mapped, or this read would end the process.
  std::_Exit(is_filled_with(victim, page_bytes(), 0) ? 0 : 1);
}

TEST(PageSourceDeathTest, GivesMemoryBackEvenWhereTheKernelCannotCutAHole) {
  std::size_t mapping_limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mapping_limit;
  if (mapping_limit > 200'000) GTEST_SKIP() << "vm.max_map_count is too high to be reached quickly";
  EXPECT_EXIT(unmap_without_mappings_left(mapping_limit), ::testing::ExitedWithCode(0), "");
}

TEST(KernelPages, CountThePagesOfARangeThatOccupyMemory) {
  constexpr std::size_t kPages = 5000;  // more than are asked about at once
  const std::size_t page = page_bytes();
  if (!knows_pages()) GTEST_SKIP() << "the emulator answers for its host's pages";
  auto* range = static_cast<char*>(kernel_pages().map(kPages * page));
  ASSERT_NE(range, nullptr);
  kernel_pages().advise_small(range, kPages * page);
  EXPECT_EQ(resident_bytes_in(range, kPages * page), 0u);
  range[0] = range[4095 * page] = range[4096 * page] = range[(kPages - 1) * page] = 1;
  EXPECT_EQ(resident_bytes_in(range, kPages * page), 4 * page);
  kernel_pages().decommit(range, page);
  EXPECT_EQ(resident_bytes_in(range, kPages * page), 3 * page);
  kernel_pages().unmap(range, kPages * page);
}

TEST(KernelPages, TellARangeThatHasHardlyBeenTouched) {
  constexpr std::size_t kPages = 160;
  const std::size_t page = page_bytes();
  if (!knows_pages()) GTEST_SKIP() << "the emulator answers for its host's pages";
  auto* range = static_cast<char*>(kernel_pages().map(kPages * page));
  ASSERT_NE(range, nullptr);
  kernel_pages().advise_small(range, kPages * page);
  if (prctl(PR_GET_SECCOMP) != 0) GTEST_SKIP() << "a filter decides which calls are made";
  EXPECT_TRUE(is_hardly_touched(range, kPages * page));
  EXPECT_FALSE(is_mostly_touched(range, kPages * page));
  for (std::size_t i = 0; i < kPages / 16 - 1; ++i) range[i * page] = 1;
  EXPECT_TRUE(is_hardly_touched(range, kPages * page));
  range[(kPages - 1) * page] = 1;
  EXPECT_FALSE(is_hardly_touched(range, kPages * page));
  kernel_pages().decommit(range, kPages * page);
  range[kPages / 2 * page] = 1;
  EXPECT_FALSE(is_hardly_touched(range, kPages * page)) << "the middle is touched";
  for (std::size_t i = 0; i < kPages * 3 / 4 - 1; ++i) range[i * page] = 1;
  EXPECT_FALSE(is_mostly_touched(range, kPages * page));
  range[(kPages - 1) * page] = 1;
  EXPECT_TRUE(is_mostly_touched(range, kPages * page));
  kernel_pages().unmap(range, kPages * page);
}

}  // namespace
}  // namespace strata::os
