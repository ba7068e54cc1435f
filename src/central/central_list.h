#pragma once

#include <strata/detail/bits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "span/page.h"
#include "span/span_source.h"

namespace strata {

/// All spans of one size class; hands out their objects and takes them back.
///
/// An object in a span is a bit of the span's bitmap. Claiming takes whole words where it can: up
/// to 64 neighbouring objects for one store. The fullest span serves first, so that nearly empty
/// ones get the chance to become empty and return to the page heap. The objects themselves are
/// never read or written.
///
/// Every object that comes back is verified: an address where no object starts, an object that is
/// in its span already (a double free), an object of another class (a wrong sized delete) are
/// fatal.
/// \threads  Any number at once; one lock.
class CentralList {
 public:
  struct Statistics {
    std::size_t spans;
    std::size_t pages;
    std::size_t claimed_objects;  ///< live, or in some cache
    std::size_t free_objects;     ///< in spans
  };

  constexpr CentralList(unsigned size_class, SpanSource& spans) noexcept
      : spans_(spans),
        size_class_(size_class),
        divider_(std::max(SizeClassMap::bytes_of(size_class), SizeClassMap::kGrain)) {}
  CentralList(const CentralList&) = delete;
  CentralList& operator=(const CentralList&) = delete;

  /// Claims up to `count` objects and writes them to end[-1], end[-2], …: a stack that ends there
  /// pops the lowest addresses first.
  /// \returns  How many; fewer than asked only when out of memory.
  /// \cost     One word of a bitmap per up to 64 objects, a page-heap call per new span.
  std::size_t claim(void** end, std::size_t count) noexcept;

  /// Claims one object anywhere in a span, by the bits of `random`.
  /// \returns  nullptr when out of memory.
  void* claim_at_random(std::uint64_t random) noexcept;

  /// Takes back `count` objects.
  /// \errors  A pointer that is no claimed object of this class is fatal, with its sentence.
  void release(void* const* objects, std::size_t count) noexcept;

  /// Returns the holes of spans: OS pages that hold nothing but free objects go back to the kernel,
  /// the objects stay in the span. Each span is looked at once per change of its free objects.
  ///   kQuiet  only spans whose free objects have stayed the same since the last call
  ///   kAll    every span
  /// \returns  Bytes given back.
  /// \cost     a system call per hole, under the lock for a few spans at a time
  enum class Spans { kQuiet, kAll };
  std::size_t release_holes(Spans which) noexcept;

  Statistics statistics() noexcept;
  void check_invariants() noexcept;
  Lock& lock() noexcept { return lock_; }  ///< for fork

 private:
  // Spans with free objects are listed by the bit width of free_count: width 1 is one object from
  // full, the widest (4096 objects, 13 bits) is nearly empty. Full spans are in no list.
  static constexpr unsigned kWidths = 14;
  static_assert((kPageBytes / SizeClassMap::kGrain) >> (kWidths - 1) == 0,
                "a free count has fewer bits than lists");

  Span* take_span_with_free_objects(std::ptrdiff_t& pending) noexcept;
  void count_taken(Span& span, std::size_t taken, std::ptrdiff_t& pending) noexcept;
  Span& span_of(const void* object) const noexcept;
  /// The object of the span that starts at `p`; no index of one if none does, wherever `p` points.
  std::size_t index_in(const Span& span, const void* p) const noexcept {
    return divider_.quotient(reinterpret_cast<std::uintptr_t>(p) -
                             reinterpret_cast<std::uintptr_t>(span.start));
  }
  void* const* put_neighbours(Span& span, void* const* objects, void* const* end) const noexcept;
  void refile(Span& span, std::uint32_t free_before, std::ptrdiff_t& pending) noexcept;
  bool is_due(Span& span, Spans which) noexcept;
  void file(Span& span) noexcept;
  void unfile(Span& span, unsigned width) noexcept;

  // Chosen: the class's other users wait for at most so many spans' system calls, or so many looks
  // at spans, some 50 µs either way.
  static constexpr unsigned kSpansPerHold = 16;
  static constexpr unsigned kLooksPerHold = 256;
  /// seen_free of a span that objects were taken from: equal to no count of free objects.
  static constexpr std::uint32_t kNotSeen = ~std::uint32_t{0};

  Lock lock_{LockRank::kCentralList};
  SpanSource& spans_;
  const unsigned size_class_;
  const detail::ExactDivider divider_;  // by the class's size; of class 0 nothing is ever released

  // All below is guarded by lock_.
  std::uint32_t nonempty_ = 0;  // bit w: by_free_[w] has a span
  IntrusiveList<Span> by_free_[kWidths];
  std::size_t listed_[kWidths] = {};  // how many spans by_free_[w] has
  std::size_t span_count_ = 0;
  std::size_t claimed_ = 0;
  std::size_t free_ = 0;
};

}  // namespace strata
