#include "shared/sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "shared/refusal_test.h"

namespace strata::cell {
namespace {

using ::testing::HasSubstr;

double mean_of(Sizes sizes) {
  std::mt19937_64 random(1);
  double sum = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    std::uint32_t size = sizes.draw(random);
    EXPECT_GE(size, sizes.smallest());
    EXPECT_LE(size, sizes.largest());
    sum += size;
  }
  return sum / kDraws;
}

class SizesFile : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    // Tests of this fixture run at the same time, in separate processes.
    path_ = ::testing::TempDir() + "strata-sizes-" + std::to_string(getpid()) + ".csv";
    std::ofstream(path_) << text;
    return path_;
  }
  std::string refusal(const std::string& text) {
    return refused_with<std::runtime_error>([&] { Sizes(write(text), 64); });
  }
  void TearDown() override { std::remove(path_.c_str()); }

 private:
  std::string path_;
};

TEST(Sizes, AreWithinTheirBoundsAndHaveTheirMean) {
  EXPECT_EQ(mean_of(Sizes("fixed", 64)), 64);
  for (const char* distribution : {"mixed", "pareto"}) {
    Sizes sizes(distribution, 64);
    EXPECT_NEAR(mean_of(sizes), sizes.mean(), sizes.mean() * 0.05) << distribution;
  }
}

TEST_F(SizesFile, DecidesHowOftenEachSizeComes) {
  Sizes sizes(write("bytes,weight\n16,3\n1000,1\n"), 64);
  EXPECT_EQ(sizes.smallest(), 16u);
  EXPECT_EQ(sizes.largest(), 1000u);
  EXPECT_DOUBLE_EQ(sizes.mean(), (3 * 16 + 1000) / 4.0);
  EXPECT_NEAR(mean_of(sizes), sizes.mean(), 10);
}

TEST_F(SizesFile, IsRefusedByTheLine) {
  EXPECT_THAT(refusal("16,1\n0,1\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("16,1\n64;2\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("16,-1\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("16,1e308\n32,1e308\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("bytes,weight\n"), HasSubstr("no sizes"));
  EXPECT_THAT(refusal("16\n32,0.5\r\n"), "accepted");
  EXPECT_THROW(Sizes("/nowhere/at/all.csv", 64), std::runtime_error);
}

}  // namespace
}  // namespace strata::cell
