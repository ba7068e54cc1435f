#include "harness/stamp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace strata::cell {
namespace {

constexpr std::uint32_t kWhole = 12345;
constexpr std::uint32_t kEnds = 12344;

TEST(Stamp, IsFoundAgainInBlocksOfEverySize) {
  for (std::uint32_t bytes :
       {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 63u, 64u, 4095u, 4096u, 4104u, 4105u, 20'001u}) {
    for (std::uint32_t stamp : {kWhole, kEnds}) {
      std::vector<std::byte> memory(bytes + 16, std::byte{0x5a});
      Block block{memory.data() + 8, bytes, stamp};
      write_stamp(block);
      EXPECT_TRUE(has_stamp(block)) << bytes;
      for (std::size_t i = 0; i < 8; ++i) {  // and nothing beside the block
        ASSERT_EQ(memory[i], std::byte{0x5a}) << bytes;
        ASSERT_EQ(memory[memory.size() - 1 - i], std::byte{0x5a}) << bytes;
      }
    }
  }
}

TEST(Stamp, AWholeOneTellsOfEverySingleByte) {
  for (std::uint32_t bytes : {1u, 9u, 64u, 1001u}) {
    std::vector<std::byte> memory(bytes);
    Block block{memory.data(), bytes, kWhole};
    write_stamp(block);
    for (std::byte& byte : memory) {
      byte ^= std::byte{1};
      ASSERT_FALSE(has_stamp(block)) << bytes << " at " << &byte - memory.data();
      byte ^= std::byte{1};
    }
    EXPECT_TRUE(has_stamp(block));
  }
}

TEST(Stamp, TheOtherTellsOfBothEndsAndOfEveryPage) {
  constexpr std::uint32_t kBytes = 3 * 4096;
  std::vector<std::byte> memory(kBytes);
  Block block{memory.data(), kBytes, kEnds};
  write_stamp(block);
  for (std::size_t at : {std::size_t{0}, std::size_t{4096}, std::size_t{8192}, memory.size() - 1}) {
    memory[at] ^= std::byte{1};
    EXPECT_FALSE(has_stamp(block)) << at;
    memory[at] ^= std::byte{1};
  }
}

TEST(Stamp, TellsOfTheLastByteAndOfWordsThatChangedPlaces) {
  for (std::uint32_t stamp : {kWhole, kEnds}) {
    for (std::uint32_t bytes : {16u, 17u, 23u, 24u, 4096u, 8192u}) {
      std::vector<std::byte> memory(bytes);
      Block block{memory.data(), bytes, stamp};
      write_stamp(block);
      memory.back() ^= std::byte{1};
      EXPECT_FALSE(has_stamp(block)) << bytes;
      memory.back() ^= std::byte{1};
      std::swap_ranges(memory.begin(), memory.begin() + 8, memory.end() - 8);
      EXPECT_FALSE(has_stamp(block)) << bytes;
    }
  }
}

TEST(Stamp, OfAnotherBlockIsAnother) {
  std::vector<std::byte> memory(64);
  Block first{memory.data(), 64, kEnds};
  Block second{memory.data(), 64, kEnds + 2};
  write_stamp(first);
  write_stamp(second);
  EXPECT_FALSE(has_stamp(first));
  EXPECT_TRUE(has_stamp(second));
}

}  // namespace
}  // namespace strata::cell
