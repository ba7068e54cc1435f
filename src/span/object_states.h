#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "size_class/size_class_map.h"
#include "span/page.h"

namespace strata {

/// What is known of a small object at any time, for frees that are verified at once: one byte.
///   kNever  not handed out since its span was made
///   kFreed  the program has freed it: it is in a cache, or back in its span
///   live    any other value; which one follows from the object's address
///
/// Each page of a span has its bytes in the bookkeeping, one for every slot of 2^n bytes, where 2^n
/// is the largest power of two that is no larger than an object, and at most kMostSlotBytes: no two
/// objects begin in the same slot. The value of a live object names the place in its slot where it
/// begins, so one comparison refuses an object that is not live and a pointer that is not its
/// start, without a division.
/// \threads  A byte is its object's owner's, as the object is: plain stores by whoever allocates or
///           frees it. Only a program that frees an object in two threads at the very same moment
///           makes two threads write one byte; then neither may notice. relaxed for that reason.
class ObjectStates {
 public:
  using State = std::atomic<std::uint8_t>;
  static_assert(sizeof(State) == 1 && State::is_always_lock_free, "a state is a byte");

  static constexpr std::uint8_t kNever = 0;
  static constexpr std::uint8_t kFreed = 1;

  /// The state of the object at `p` while it is live.
  static std::uint8_t live_at(const void* p) noexcept {
    return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(p) / SizeClassMap::kGrain |
                                     kLiveMark);
  }

  /// Which of its page's states is that of the object at `p`.
  static std::size_t slot_of(const void* p, std::size_t size_class) noexcept {
    return reinterpret_cast<std::uintptr_t>(p) % kPageBytes >> kSlotShifts[size_class];
  }
  static constexpr std::size_t slots_of_page(std::size_t size_class) noexcept {
    return kPageBytes >> kSlotShifts[size_class];
  }

 private:
  static constexpr std::uint8_t kLiveMark = 0x80;
  // The most that the bits of a state beside the mark tell apart.
  static constexpr std::size_t kMostSlotBytes = kLiveMark * SizeClassMap::kGrain;

  static constexpr auto kSlotShifts = [] {
    std::array<std::uint8_t, SizeClassMap::kCount> shifts{};
    for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
      const std::size_t bytes = SizeClassMap::bytes_of(c);
      shifts[c] = static_cast<std::uint8_t>(
          std::bit_width(bytes < kMostSlotBytes ? bytes : kMostSlotBytes) - 1);
    }
    return shifts;
  }();
};

}  // namespace strata
