#pragma once

#include <strata/detail/bits.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata {
namespace detail {

inline constexpr std::size_t kSizeGrain = 16;
inline constexpr unsigned kGrainClasses = 16;  // 16 … 256 in steps of the grain
inline constexpr unsigned kHeaderClass = 33;   // 1 KiB and a grain
inline constexpr unsigned kFineClasses = 57;   // … 8 KiB, 8 steps per doubling
inline constexpr unsigned kSizeClasses = 75;   // … 160 KiB, 4 steps per doubling
inline constexpr unsigned kStepShift = 3;

/// The sizes, ascending from index 1.
constexpr std::array<std::uint32_t, kSizeClasses> size_class_bytes() noexcept {
  std::array<std::uint32_t, kSizeClasses> bytes{};
  std::uint32_t size = 0;
  unsigned c = 1;
  for (; c <= kGrainClasses; ++c) bytes[c] = size += kSizeGrain;
  for (; c < kHeaderClass; ++c) bytes[c] = size += std::bit_floor(size) >> kStepShift;
  bytes[c++] = size + kSizeGrain;
  for (; c <= kFineClasses; ++c) bytes[c] = size += std::bit_floor(size) >> kStepShift;
  for (; c < kSizeClasses; ++c) bytes[c] = size += std::bit_floor(size) >> (kStepShift - 1);
  return bytes;
}

/// The smallest class that holds a size, for every size up to kMax; 0 for 0 bytes.
template <std::size_t kMax>
constexpr std::array<std::uint8_t, kMax + 1> size_class_of_bytes() noexcept {
  std::array<std::uint8_t, kMax + 1> classes{};
  const auto bytes = size_class_bytes();
  std::uint8_t c = 1;
  for (std::size_t size = 1; size <= kMax; ++size) {
    if (size > bytes[c]) ++c;
    classes[size] = c;
  }
  return classes;
}

}  // namespace detail

/// The sizes into which the malloc cuts spans, and which of them serves a request.
///
///   16 … 256    every 16 bytes           classes  1 … 16
///   … 8 KiB     8 steps per doubling     classes 17 … 57, with one of 1040 bytes between steps
///   … 160 KiB   4 steps per doubling     classes 58 … 74
///
/// Class 0 means "not small": larger than kMaxBytes, or (in the page map) not an object of a class.
/// Every size is a multiple of 16, so every object is aligned to 16. An object is also aligned to
/// every power of two up to kMaxAlignment that divides its size, since spans start at multiples of
/// kMaxAlignment.
///
/// Waste: at most 15 bytes up to 256, below 1/8 of the object up to 8 KiB, and below 1/5 above;
/// half of that on average. With 8 steps per doubling above 8 KiB, too, free objects spread over
/// more classes, and programs became larger by a twentieth. The class of 1040 bytes is for programs
/// that put a word before each KiB: without it they would waste a ninth (docs/decisions/0003).
/// docs/size-classes.md has the table, generated from here.
class SizeClassMap {
 public:
  // Chosen. The thread cache moves a few objects of the largest class at a time; beyond that size
  // page runs waste at most an eighth on average.
  static constexpr std::size_t kMaxBytes = 160 * 1024;
  // Chosen. Up to this size the class comes from one table load; at least 95% of the requests of
  // real programs are smaller. The last class of the table is between two steps.
  static constexpr std::size_t kMaxTableBytes = 1024 + detail::kSizeGrain;
  static constexpr std::size_t kGrain = detail::kSizeGrain;
  // Chosen with the page of span/page.h: objects lie at multiples of their size after a multiple of
  // this.
  static constexpr std::size_t kMaxAlignment = 64 * 1024;

  // Derived.
  static constexpr unsigned kCount = detail::kSizeClasses;  ///< class 0 included
  /// Not a class: the page map's entry for homeward objects, of any class. They have a bin of their
  /// own.
  static constexpr unsigned kHomeward = kCount;
  static constexpr unsigned kBins = kCount + 1;

  /// The class of the smallest size that holds `bytes`. 0 if bytes == 0: bin 0 is always empty, so
  /// malloc(0) takes the slow path, which serves it.
  /// \pre      bytes <= kMaxTableBytes
  /// \cost     one load
  static constexpr std::size_t class_of_tiny(std::size_t bytes) noexcept { return kTiny[bytes]; }

  /// The same for the sizes beyond the table.
  /// \pre      kMaxTableBytes < bytes <= kMaxBytes
  /// \cost     12 instructions
  static constexpr std::size_t class_of_step(std::size_t bytes) noexcept {
    const std::size_t last = bytes - 1;
    const unsigned top = detail::log2_floor(last);
    // The top bit and the three bits below it: 8 … 15 within a doubling.
    const std::size_t step =
        kStepsPerDoubling * top + (last >> (top - detail::kStepShift)) - kStepsBelow;
    // Above the fine classes two steps are one class.
    return step <= detail::kFineClasses ? step : (step + detail::kFineClasses + 1) / 2;
  }

  /// The same for any size. The first class for 0 bytes; 0 if bytes > kMaxBytes.
  static constexpr unsigned class_of(std::size_t bytes) noexcept {
    return bytes != 0 ? static_cast<unsigned>(bin_of(bytes)) : 1;
  }
  /// The same, but 0 for 0 bytes, as class_of_tiny().
  static constexpr std::size_t bin_of(std::size_t bytes) noexcept {
    if (bytes <= kMaxTableBytes) return class_of_tiny(bytes);
    return bytes <= kMaxBytes ? class_of_step(bytes) : 0;
  }

  /// The size to give to class_of() instead of `bytes`, so that all objects of the class are
  /// aligned to `alignment`, a power of two up to kMaxAlignment: the next multiple of `alignment`.
  /// Where classes are closer together than that, each multiple is the size of a class; where they
  /// are farther apart, all their sizes are multiples. No smaller class has the alignment.
  /// \pre      bytes != 0
  /// \returns  0 if no size is that large
  static constexpr std::size_t aligned_bytes(std::size_t bytes, std::size_t alignment) noexcept {
    return ((bytes - 1) | (alignment - 1)) + 1;
  }

  /// The smallest class that holds `bytes` and whose objects are all aligned to `alignment`, a
  /// power of two; 0 if there is none.
  static constexpr unsigned class_of_aligned(std::size_t bytes, std::size_t alignment) noexcept {
    if (bytes > kMaxBytes || alignment > kMaxAlignment) return 0;
    return class_of(aligned_bytes(bytes != 0 ? bytes : 1, alignment));
  }

  /// The class of the next power of two: its objects are at least as large as this class's, and at
  /// least as aligned.
  /// \pre  the class is not 0, and its objects are no larger than the largest power of two
  static constexpr unsigned rounded_up(unsigned size_class) noexcept {
    return class_of(std::size_t{1} << (detail::log2_floor(kBytes[size_class] - 1) + 1));
  }

  /// The size of an object of the class; 0 for class 0.
  static constexpr std::size_t bytes_of(std::size_t size_class) noexcept {
    return kBytes[size_class];
  }

 private:
  static constexpr unsigned kStepsPerDoubling = 1u << detail::kStepShift;
  // What class_of_step() counts up to the last grain class, less the grain classes and the class
  // between two steps.
  static constexpr unsigned kGrainTop = detail::log2_floor(detail::kGrainClasses * kGrain);
  static constexpr unsigned kStepsBelow =
      kStepsPerDoubling * (kGrainTop + 1) - detail::kGrainClasses - 2;

  static constexpr auto kBytes = detail::size_class_bytes();
  static constexpr auto kTiny = detail::size_class_of_bytes<kMaxTableBytes>();

  static_assert(kBytes[detail::kGrainClasses] == std::size_t{1} << kGrainTop,
                "the steps begin at a power of two");
  static_assert(kBytes[detail::kHeaderClass] == kMaxTableBytes, "the steps go on after the table");
  static_assert(kBytes[kCount - 1] == kMaxBytes, "the last class is the largest small size");
};

}  // namespace strata
