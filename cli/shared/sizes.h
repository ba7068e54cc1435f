#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace strata::cell {

/// The size distribution of a load. Sizes are drawn before the clock starts; each thread has a
/// copy.
///
///   fixed   always --size
///   mixed   like typical programs: most up to 64 bytes, fewer up to 1 KiB, some up to 16 KiB;
///           scaled by --size / 64
///   pareto  a heavy tail from --size, shape 1.2, cut at 1024 times --size
///   FILE    lines "bytes,weight"; a first line without digits is a heading
class Sizes {
 public:
  /// \errors  std::runtime_error, with a sentence, for a file that cannot be read or parsed.
  Sizes(const std::string& distribution, std::uint64_t size);

  std::uint32_t draw(std::mt19937_64& random);
  std::uint32_t smallest() const noexcept { return smallest_; }
  std::uint32_t largest() const noexcept { return largest_; }
  /// The mean of the values that draw() returns.
  double mean() const noexcept { return mean_; }

 private:
  /// Sizes `from` to `to`, equally likely, with the total weight `weight`.
  struct Range {
    std::uint32_t from;
    std::uint32_t to;
    double weight;
  };
  void read_file(const std::string& path);

  std::vector<Range> ranges_;
  std::discrete_distribution<std::size_t> choose_;
  double pareto_scale_ = 0;  // 0: draw from the ranges
  std::uint32_t smallest_ = 1;
  std::uint32_t largest_ = 1;
  double mean_ = 1;
};

}  // namespace strata::cell
