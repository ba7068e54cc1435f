#include "size_class/size_class_map.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {
namespace {

constexpr std::size_t kMaxBytes = SizeClassMap::kMaxBytes;

TEST(SizeClassMap, SizesAscendFromOneGrainToTheLargestInWholeGrains) {
  EXPECT_EQ(SizeClassMap::bytes_of(0), 0u);
  EXPECT_EQ(SizeClassMap::bytes_of(1), SizeClassMap::kGrain);
  EXPECT_EQ(SizeClassMap::bytes_of(SizeClassMap::kCount - 1), kMaxBytes);
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    EXPECT_GT(SizeClassMap::bytes_of(c), SizeClassMap::bytes_of(c - 1)) << "class " << c;
    EXPECT_EQ(SizeClassMap::bytes_of(c) % SizeClassMap::kGrain, 0u) << "class " << c;
  }
}

TEST(SizeClassMap, EverySizeUpToTheLargestGetsTheSmallestClassThatHoldsIt) {
  for (std::size_t bytes = 0; bytes <= kMaxBytes; ++bytes) {
    const unsigned c = SizeClassMap::class_of(bytes);
    ASSERT_GE(c, 1u) << bytes;
    ASSERT_LT(c, SizeClassMap::kCount) << bytes;
    ASSERT_GE(SizeClassMap::bytes_of(c), bytes);
    ASSERT_TRUE(c == 1 || SizeClassMap::bytes_of(c - 1) < bytes) << bytes;
  }
}

TEST(SizeClassMap, TheTableAnswersAsTheWholeMapDoes) {
  for (std::size_t bytes = 1; bytes <= SizeClassMap::kMaxTableBytes; ++bytes) {
    ASSERT_EQ(SizeClassMap::class_of_tiny(bytes), SizeClassMap::class_of(bytes)) << bytes;
  }
  EXPECT_EQ(SizeClassMap::class_of_tiny(0), 0u) << "no bin has what malloc(0) asks for";
}

TEST(SizeClassMap, AKibibyteWithAHeaderBeforeItWastesLittle) {
  EXPECT_EQ(SizeClassMap::bytes_of(SizeClassMap::class_of(1024 + 8)), 1040u);
  EXPECT_EQ(SizeClassMap::bytes_of(SizeClassMap::class_of(1024)), 1024u);
  EXPECT_EQ(SizeClassMap::bytes_of(SizeClassMap::class_of(1041)), 1152u);
}

TEST(SizeClassMap, LargerSizesAreNotSmall) {
  for (const std::size_t bytes :
       {kMaxBytes + 1, 2 * kMaxBytes, std::size_t{1} << 32, (std::size_t{1} << 32) + 16,
        std::size_t{PTRDIFF_MAX}, SIZE_MAX - 15, SIZE_MAX}) {
    EXPECT_EQ(SizeClassMap::class_of(bytes), 0u) << bytes;
  }
}

TEST(SizeClassMap, WasteStaysBelowTheDocumentedBounds) {
  for (std::size_t bytes = 1; bytes <= kMaxBytes; ++bytes) {
    const std::size_t object_bytes = SizeClassMap::bytes_of(SizeClassMap::class_of(bytes));
    const std::size_t waste = object_bytes - bytes;
    if (bytes <= 256) {
      ASSERT_LT(waste, SizeClassMap::kGrain) << bytes;
    } else if (bytes <= 8 * 1024) {
      ASSERT_LT(8 * waste, object_bytes) << bytes;
    } else {
      ASSERT_LT(5 * waste, object_bytes) << bytes;
    }
  }
}

TEST(SizeClassMap, AnAlignedRequestGetsTheSmallestClassWhoseObjectsAreAllAligned) {
  for (std::size_t alignment = 1; alignment <= SizeClassMap::kMaxAlignment; alignment *= 2) {
    for (std::size_t bytes = 0; bytes <= kMaxBytes; bytes += bytes < 2048 ? 1 : 509) {
      unsigned expected = 1;
      while (expected < SizeClassMap::kCount &&
             (SizeClassMap::bytes_of(expected) < bytes ||
              SizeClassMap::bytes_of(expected) % alignment != 0)) {
        ++expected;
      }
      if (expected == SizeClassMap::kCount) expected = 0;
      ASSERT_EQ(SizeClassMap::class_of_aligned(bytes, alignment), expected)
          << bytes << " aligned to " << alignment;
      if (alignment <= SizeClassMap::kGrain) {
        ASSERT_EQ(SizeClassMap::class_of(bytes), expected) << bytes << ": every object is aligned";
      }
    }
  }
}

TEST(SizeClassMap, TheClassOfTheNextPowerOfTwoHoldsAndAlignsEveryObject) {
  const unsigned largest = SizeClassMap::class_of(128 * 1024);
  for (unsigned c = 1; c <= largest; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    const std::size_t rounded = SizeClassMap::bytes_of(SizeClassMap::rounded_up(c));
    ASSERT_EQ(rounded, std::bit_ceil(bytes)) << bytes;
    ASSERT_GE(rounded & -rounded, bytes & -bytes) << bytes << ": less aligned";
  }
}

// Spans start at multiples of 64 KiB, so an object of 128 KiB is not aligned to its own size.
TEST(SizeClassMap, NoClassPromisesMoreAlignmentThanASpanHas) {
  for (std::size_t alignment = 2 * SizeClassMap::kMaxAlignment; alignment != 0; alignment *= 2) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kMaxBytes, SIZE_MAX}) {
      EXPECT_EQ(SizeClassMap::class_of_aligned(bytes, alignment), 0u)
          << bytes << " aligned to " << alignment;
    }
  }
  EXPECT_EQ(SizeClassMap::class_of_aligned(kMaxBytes + 1, 16), 0u);
}

}  // namespace
}  // namespace strata
