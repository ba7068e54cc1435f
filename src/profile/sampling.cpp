#include "profile/sampling.h"

#include <bit>

#include "base/random.h"

namespace strata {
namespace {

/// ln x for normal x > 0: the exponent, and the series of 2 artanh s for a mantissa in [0.75, 1.5).
double logarithm(double x) noexcept {
  constexpr double kLn2 = 0.693147180559945309417;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & ((std::uint64_t{1} << 52) - 1)) |
                                   (std::uint64_t{1023} << 52));  // in [1, 2)
  if (m >= 1.5) {
    m /= 2;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double sum = 0;
  double power = s;
  for (int n = 1; n < 30; n += 2, power *= square) sum += power / n;
  return exponent * kLn2 + 2 * sum;
}

/// 1 - e^-x for x >= 0, exact to the last bits, even for small x.
double chance(double x) noexcept {
  if (x > 40) return 1;
  // For larger x: e^-x by squaring from an x below one half.
  int squarings = 0;
  for (; x > 0.5; x /= 2) ++squarings;
  double sum = 0;
  double term = x;
  for (int n = 2; n < 20; ++n) {
    sum += term;
    term *= -x / n;
  }
  if (squarings == 0) return sum;
  double rest = 1 - sum;
  while (squarings-- != 0) rest *= rest;
  return 1 - rest;
}

}  // namespace

std::int64_t Sampling::draw_interval(std::size_t rate) noexcept {
  if (rate == 1) return 0;
  const std::uint64_t bits =
      scrambled(state_.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed));
  // In (0, 1): never 0, whose logarithm is infinite.
  const double uniform = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
  return static_cast<std::int64_t>(-logarithm(uniform) * static_cast<double>(rate));
}

std::uint64_t Sampling::weight(std::size_t rate, std::size_t bytes) noexcept {
  if (rate == 1) return kOne;
  const double share = static_cast<double>(bytes) / static_cast<double>(rate);
  return static_cast<std::uint64_t>(static_cast<double>(kOne) / chance(share) + 0.5);
}

}  // namespace strata
