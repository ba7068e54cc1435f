#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "size_class/size_class_map.h"
#include "span/page.h"

namespace strata {

/// The state of each small object, one byte, with which frees are verified at once.
///   kNever  not handed out since its span was made
///   kFreed  the program has freed it: it is in a cache, or back in its span
///   live    a multiple of 16; which one follows from the object's address
///
/// A span's bytes are in the bookkeeping, one per slot of 2^n bytes, where 2^n is the largest power
/// of two that is no larger than an object, and at most kMostSlotBytes: no two objects begin in the
/// same slot. The value of a live object is its place in its slot, so one comparison, without a
/// division, refuses both an object that is not live and a pointer that is not its start.
/// \threads  A byte belongs to its object's owner, like the object: whoever allocates or frees it
///           uses plain stores. Two threads write one byte only if the program frees an object in
///           both at the very same moment; then neither may notice. relaxed for that reason.
class ObjectStates {
 public:
  using State = std::atomic<std::uint8_t>;
  static_assert(sizeof(State) == 1 && State::is_always_lock_free, "a state is a byte");

  static constexpr std::uint8_t kFreed = 1;
  static constexpr std::uint8_t kNever = 2;

  /// The state of the object at `p` while it is live.
  /// \pre  p is aligned to 16
  static std::uint8_t live_at(const void* p) noexcept {
    return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(p));
  }

  /// A tolerated race (see the class). With a plain load the comparison is one instruction, with an
  /// atomic one two.
  static bool is_live(const State& state, const void* p) noexcept {
#ifdef __SANITIZE_THREAD__
    return state.load(std::memory_order_relaxed) == live_at(p);
#else
    return *reinterpret_cast<const std::uint8_t*>(&state) == live_at(p);
#endif
  }

  /// Where the states of a page's objects are; one word, equal for all pages of a span: the address
  /// of the byte that the slot at address 0 would have, with the shift from an address to its
  /// slot's number in the low bits.
  using Place = std::uintptr_t;
  static constexpr Place kNoPlace = 0;

  /// The place of objects without states while some threads still look: one byte for all of them,
  /// whatever their addresses, which says nothing.
  static Place nowhere() noexcept {
    return reinterpret_cast<std::uintptr_t>(&g_nowhere) | kShiftBits;
  }

  static Place place(State* states, const void* start, std::size_t size_class) noexcept {
    const unsigned shift = kSlotShifts[size_class];
    return (reinterpret_cast<std::uintptr_t>(states) -
            (reinterpret_cast<std::uintptr_t>(start) >> shift)) |
           shift;
  }
  /// The state of the object at `p`.
  /// \cost  4 instructions
  static State& at(Place place, const void* p) noexcept {
    return *reinterpret_cast<State*>((place & ~kShiftBits) +
                                     (reinterpret_cast<std::uintptr_t>(p) >> (place & kShiftBits)));
  }

  static constexpr std::size_t slots_of_page(std::size_t size_class) noexcept {
    return kPageBytes >> kSlotShifts[size_class];
  }

 private:
  // The multiples of 16 among a byte's values tell no more places apart.
  static constexpr std::size_t kMostSlotBytes = 256;
  static constexpr Place kShiftBits = 63;  // by more no word is shifted
  static_assert(kPageBytes / kMostSlotBytes % (kShiftBits + 1) == 0 &&
                    MetadataArena::kMinBytes % (kShiftBits + 1) == 0,
                "the low bits of a place are free for the shift");
  static_assert(SizeClassMap::kGrain > kNever, "no live object has the state of one that is not");

  // A cache line of its own, since threads that still look may write it.
  alignas(kShiftBits + 1) static State g_nowhere;

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

inline constinit ObjectStates::State ObjectStates::g_nowhere alignas(ObjectStates::kShiftBits +
                                                                     1){kFreed};

}  // namespace strata
