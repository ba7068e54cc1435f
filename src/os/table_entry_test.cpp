#include "os/table_entry.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#if __has_include(<execinfo.h>)
#include <execinfo.h>

/// libgcc's struct, with which its unwinder asks for an entry.
struct EntryBases {
  void* text;
  void* data;
  void* function;
};
extern "C" const void* _Unwind_Find_FDE(void* instruction, EntryBases* bases);

namespace strata::os {
namespace {

[[gnu::noinline]] int small_function(int x) { return x * 3; }

/// Instructions of the program, of the C library, of the C++ library, and of our callers.
std::vector<std::uintptr_t> instructions() {
  std::vector<std::uintptr_t> found = {
      reinterpret_cast<std::uintptr_t>(&small_function), reinterpret_cast<std::uintptr_t>(&::qsort),
      reinterpret_cast<std::uintptr_t>(&::strtol), reinterpret_cast<std::uintptr_t>(&::getenv),
      reinterpret_cast<std::uintptr_t>(
          static_cast<void (*)(int*, char**)>(&testing::InitGoogleTest))};
  void* callers[64];
  const int count = backtrace(callers, 64);
  for (int i = 0; i < count; ++i) found.push_back(reinterpret_cast<std::uintptr_t>(callers[i]) - 1);
  return found;
}

struct TableEntries : ::testing::Test {
  void SetUp() override {
    if (!can_find_table_entries()) GTEST_SKIP() << "this C library cannot tell where tables are";
  }
};

TEST_F(TableEntries, AreThoseThatTheUnwinderFinds) {
  std::size_t found = 0;
  for (const std::uintptr_t start : instructions()) {
    for (std::uintptr_t at = start; at < start + 300; ++at) {
      EntryBases bases{};
      const void* const expected = _Unwind_Find_FDE(reinterpret_cast<void*>(at), &bases);
      const TableEntry entry = find_table_entry(at);
      ASSERT_EQ(entry.entry, expected) << std::hex << at;
      if (expected == nullptr) continue;
      ASSERT_EQ(reinterpret_cast<void*>(entry.function), bases.function) << std::hex << at;
      ++found;
    }
  }
  EXPECT_GT(found, 1000u);
}

TEST_F(TableEntries, AreNoneOfWhatIsNoCode) {
  static const int constant = 1;
  const int variable = 1;
  const std::vector<char> heap(100);
  for (const void* p : {static_cast<const void*>(&constant), static_cast<const void*>(&variable),
                        static_cast<const void*>(heap.data()), static_cast<const void*>(nullptr)}) {
    EXPECT_EQ(find_table_entry(reinterpret_cast<std::uintptr_t>(p)).entry, nullptr);
  }
  EXPECT_EQ(find_table_entry(~std::uintptr_t{0}).entry, nullptr);
}

TEST_F(TableEntries, EachAddressOfAFileLeadsToItsStartAndLength) {
  const auto* const code = reinterpret_cast<const void*>(&::qsort);
  Dl_info info{};
  ASSERT_NE(dladdr(code, &info), 0);
  const auto* const start = static_cast<const char*>(info.dli_fbase);
  const std::size_t bytes = find_file_bytes(code);
  for (const void* const p :
       {code, static_cast<const void*>(start), static_cast<const void*>(start + bytes - 1)}) {
    EXPECT_EQ(find_file(p), start);
    EXPECT_EQ(find_file_bytes(p), bytes);
  }
  EXPECT_NE(find_file(start + bytes), start);
  const int variable = 1;
  EXPECT_EQ(find_file(&variable), nullptr);
  EXPECT_EQ(find_file_bytes(&variable), 0u);
}

}  // namespace
}  // namespace strata::os

#endif
