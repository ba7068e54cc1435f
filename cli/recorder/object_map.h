#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/system.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace strata::recorder {

/// A hash table from addresses to live objects. A bucket is a cache line of five entries; an entry
/// that does not fit goes into the next bucket with room. No branch depends on an entry's position
/// in its bucket, and few entries lie outside their home bucket, so branches are predictable.
/// Always: at most two fifths of the entries are used. Each bucket counts the entries that passed
/// it because it was full, so a search goes no further than it must.
/// \threads  One at a time.
class ObjectMap {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void prefetch(std::uint64_t address) const noexcept {
    __builtin_prefetch(&buckets_[place_of(address)]);
  }

  /// \pre      0 < address < 2^52, object < 2^44
  /// \returns  The object that was there; kNone if none.
  std::uint64_t insert(std::uint64_t address, std::uint64_t object) noexcept {
    if (count_ >= most_ && !grow()) return kNone;
    Bucket& bucket = buckets_[place_of(address)];
    if (bucket.is_full() || bucket.alike(address) != 0 || bucket.passed() != 0) {
      return insert_slowly(address, object);
    }
    bucket.put(bucket.first_free(), address, object);
    ++count_;
    return kNone;
  }

  /// \returns  The object that was there; kNone if none.
  std::uint64_t take(std::uint64_t address) noexcept {
    if (count_ == 0) return kNone;
    const std::size_t home = place_of(address);
    std::size_t at = home;
    unsigned way = buckets_[at].find(address);
    while (way == kWays) {
      if (buckets_[at].passed() == 0) return kNone;
      at = next(at);
      way = buckets_[at].find(address);
    }
    for (std::size_t passed = home; passed != at; passed = next(passed)) buckets_[passed].pass(-1);
    buckets_[at].clear(way);
    --count_;
    return buckets_[at].object(way);
  }

  void clear() noexcept {
    if (buckets_ != nullptr) unmap_memory(buckets_, (mask_ + 1) * sizeof(Bucket));
    *this = ObjectMap();
  }
  std::size_t count() const noexcept { return count_; }

 private:
  static constexpr unsigned kWays = 5;

  class alignas(64) Bucket {
   public:
    /// The index of an address's entry; kWays if it has none.
    unsigned find(std::uint64_t address) const noexcept {
      unsigned candidates = alike(address);
      while (candidates != 0) {
        const auto way = static_cast<unsigned>(__builtin_ctz(candidates));
        if (address_of(way) == address) return way;
        candidates &= candidates - 1;
      }
      return kWays;
    }
    /// The entries, as a bit mask, whose low address half matches. Other addresses hardly ever
    /// match.
    unsigned alike(std::uint64_t address) const noexcept {
      const auto low = static_cast<std::uint32_t>(address);
      return (first_four_alike(low) | unsigned{lows_[4] == low} << 4) & state_;
    }
    bool is_full() const noexcept { return (state_ & kAll) == kAll; }
    bool has(unsigned way) const noexcept { return (state_ >> way & 1) != 0; }
    /// \pre  not full
    unsigned first_free() const noexcept { return static_cast<unsigned>(__builtin_ctz(~state_)); }
    std::uint64_t address_of(unsigned way) const noexcept {
      return rests_[way] >> kObjectBits << 32 | lows_[way];
    }
    std::uint64_t object(unsigned way) const noexcept { return rests_[way] & kObjectMask; }
    void put(unsigned way, std::uint64_t address, std::uint64_t object) noexcept {
      lows_[way] = static_cast<std::uint32_t>(address);
      rests_[way] = address >> 32 << kObjectBits | object;
      state_ |= 1u << way;
    }
    void clear(unsigned way) noexcept { state_ &= ~(1u << way); }
    std::uint32_t passed() const noexcept { return state_ >> kWays; }
    void pass(int entries) noexcept { state_ += static_cast<std::uint32_t>(entries) << kWays; }

   private:
    static constexpr unsigned kAll = (1u << kWays) - 1;
    static constexpr unsigned kObjectBits = 44;
    static constexpr std::uint64_t kObjectMask = (std::uint64_t{1} << kObjectBits) - 1;

    unsigned first_four_alike(std::uint32_t low) const noexcept {
#if defined(__SSE2__)
      const __m128i lows = _mm_load_si128(reinterpret_cast<const __m128i*>(lows_));
      const __m128i alike = _mm_cmpeq_epi32(lows, _mm_set1_epi32(static_cast<int>(low)));
      return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(alike)));
#else
      unsigned found = 0;
      for (unsigned i = 0; i < 4; ++i) found |= unsigned{lows_[i] == low} << i;
      return found;
#endif
    }

    std::uint32_t lows_[kWays];   ///< of the addresses
    std::uint32_t state_;         ///< which entries are used; passed() in the bits above
    std::uint64_t rests_[kWays];  ///< the address's upper 20 bits, and the object
  };
  static_assert(sizeof(Bucket) == 64);

  static constexpr std::size_t kFirst = 1 << 10;
  // Chosen: 2 GiB for 67 million live objects. Objects beyond that are unknown when they end.
  static constexpr std::size_t kMost = 1 << 25;

  /// Takes the product's upper half, which depends on all address bits.
  std::size_t place_of(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15u >> 32) & mask_;
  }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask_; }

  [[gnu::noinline]] std::uint64_t insert_slowly(std::uint64_t address,
                                                std::uint64_t object) noexcept {
    for (std::size_t at = place_of(address);; at = next(at)) {
      Bucket& bucket = buckets_[at];
      const unsigned way = bucket.find(address);
      if (way < kWays) {
        const std::uint64_t before = bucket.object(way);
        bucket.put(way, address, object);
        return before;
      }
      if (bucket.passed() == 0) break;
    }
    std::size_t at = place_of(address);
    for (; buckets_[at].is_full(); at = next(at)) buckets_[at].pass(1);
    buckets_[at].put(buckets_[at].first_free(), address, object);
    ++count_;
    return kNone;
  }

  [[gnu::noinline]] bool grow() noexcept {
    const std::size_t buckets = buckets_ == nullptr ? kFirst : 2 * (mask_ + 1);
    if (buckets > kMost) return false;
    auto* const memory = static_cast<Bucket*>(map_table(buckets * sizeof(Bucket)));
    if (memory == nullptr) return false;
    ObjectMap before = *this;
    buckets_ = memory;
    mask_ = buckets - 1;
    count_ = 0;
    most_ = 2 * buckets;
    for (std::size_t i = 0; i <= before.mask_ && before.buckets_ != nullptr; ++i) {
      const Bucket& bucket = before.buckets_[i];
      for (unsigned way = 0; way < kWays; ++way) {
        if (bucket.has(way)) insert(bucket.address_of(way), bucket.object(way));
      }
    }
    before.clear();
    return true;
  }

  Bucket* buckets_ = nullptr;
  std::size_t mask_ = 0;
  std::size_t count_ = 0;
  std::size_t most_ = 0;  ///< entries before it grows
};

}  // namespace strata::recorder
