#include "harness/own_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::cell {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

std::uint64_t counted() { return table_bytes->load(std::memory_order_relaxed); }

template <typename Memory>
std::size_t resident_bytes_of(Memory& memory) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((memory.size() + page_bytes - 1) / page_bytes);
  EXPECT_EQ(::mincore(memory.data(), memory.size(), pages.data()), 0);
  std::size_t resident = 0;
  for (unsigned char page : pages) resident += (page & 1) * page_bytes;
  return resident;
}

TEST(OwnMemory, OfATableIsResidentAsAWholeAndCountedWhileItLives) {
  const std::uint64_t before = counted();
  {
    OwnMemory<char> table(kBytes + 1);
    EXPECT_GT(counted() - before, kBytes);
    EXPECT_EQ(counted() - before, resident_bytes_of(table));
    OwnMemory<char> moved(std::move(table));
    EXPECT_EQ(counted() - before, resident_bytes_of(moved));
  }
  EXPECT_EQ(counted(), before);
}

TEST(OwnMemory, OfAPoolIsTheContendersAndResidentAsItIsUsed) {
  const std::uint64_t before = counted();
  OwnMemory<char, Owner::kContender> storage(kBytes);
  EXPECT_EQ(resident_bytes_of(storage), 0u);
  storage[0] = 1;
  EXPECT_GT(resident_bytes_of(storage), 0u);
  EXPECT_EQ(counted(), before);
}

}  // namespace
}  // namespace strata::cell
