#include <strata/detail/bits.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace strata::detail {
namespace {

static_assert(is_power_of_two(1u) && is_power_of_two(std::size_t{1} << 40));
static_assert(!is_power_of_two(0u) && !is_power_of_two(6u));
static_assert(count_trailing_zeros(std::uint64_t{1} << 63) == 63);
static_assert(count_leading_zeros(std::uint64_t{1}) == 63);
static_assert(count_leading_zeros(std::uint8_t{1}) == 7, "zeros are counted in the type given");
static_assert(popcount(~std::uint64_t{0}) == 64 && popcount(std::uint8_t{0xa5}) == 4);
static_assert(log2_floor(63u) == 5 && log2_floor(64u) == 6);
static_assert(log2_ceil(1u) == 0 && log2_ceil(64u) == 6 && log2_ceil(65u) == 7);
static_assert(floor_power_of_two(100u) == 64 && lowest_set_bit(std::size_t{24}) == 8);
static_assert(low_bits<std::uint32_t>(0) == 0 && low_bits<std::uint32_t>(32) == 0xffffffffu);
static_assert(low_bits<std::uint8_t>(3) == 7 && low_bits<std::uint64_t>(64) == ~std::uint64_t{0});
static_assert(rotate_right(std::uint32_t{1}, 1) == 0x80000000u);
static_assert(rotate_right(std::uint64_t{5}, 0) == 5, "no shift by the width of the word");
static_assert(reverse_bits(1) == 0x80000000u && reverse_bits(0x80000000u) == 1);
static_assert(round_up(std::size_t{65}, std::size_t{64}) == 128 && round_down(127u, 64u) == 64);
static_assert(divide_rounding_up(65u, 64u) == 2 && divide_rounding_up(~0u, 2u) == 0x80000000u);
static_assert(ExactDivider(48).quotient(48 * 1000) == 1000, "usable in constant expressions");

TEST(Bits, BitReversedStartsAreAllDifferentAndHalveTheGaps) {
  std::vector<bool> seen(8);
  std::vector<unsigned> starts;
  for (std::uint32_t n = 0; n < 8; ++n) {
    const auto start = static_cast<unsigned>((std::uint64_t{reverse_bits(n)} * 8) >> 32);
    EXPECT_FALSE(seen[start]) << n;
    seen[start] = true;
    starts.push_back(start);
  }
  EXPECT_EQ(starts, (std::vector<unsigned>{0, 4, 2, 6, 1, 5, 3, 7}));
}

TEST(ExactDivider, AcceptsExactlyTheMultiplesBelowTheLimit) {
  for (std::uintptr_t divisor = 1; divisor <= 200; ++divisor) {
    const ExactDivider divider(divisor);
    const std::uintptr_t count = 37;
    for (std::uintptr_t x = 0; x < divisor * (count + 3); ++x) {
      const bool is_block = x % divisor == 0 && x / divisor < count;
      ASSERT_EQ(divider.quotient(x) < count, is_block) << x << " / " << divisor;
      if (is_block) {
        ASSERT_EQ(divider.quotient(x), x / divisor);
      }
    }
  }
}

TEST(ExactDivider, RefusesOffsetsBelowTheBaseAndMultiplesFarAway) {
  for (std::uintptr_t divisor : {1u, 3u, 24u, 64u, 4096u, 1000003u}) {
    const ExactDivider divider(divisor);
    const std::uintptr_t count = 64;
    EXPECT_GE(divider.quotient(std::uintptr_t{0} - divisor), count) << "one block below the first";
    EXPECT_GE(divider.quotient(count * divisor), count);
    EXPECT_GE(divider.quotient(divisor << 32), count) << "2^32 blocks away";
    EXPECT_GE(divider.quotient((divisor << 32) + divisor), count);
  }
}

}  // namespace
}  // namespace strata::detail
