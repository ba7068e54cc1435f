#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/system.h"

namespace strata::recorder {

/// Which object lives at an address. A bucket is a cache line of four entries; what does not fit
/// goes into the next one that has room. No branch depends on where in a bucket an entry is, and
/// few entries are anywhere but in their own bucket: a processor predicts all of it.
/// Always: at most half of the places are taken; each bucket counts the entries that lie beyond it
/// because it was full, so that no search goes further than it must.
/// \threads  One at a time.
class ObjectMap {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void prefetch(std::uint64_t address) const noexcept {
    __builtin_prefetch(&buckets_[place_of(address)]);
  }

  /// \pre      neither is 0, object < 2^48
  /// \returns  The object that was there, kNone if there was none.
  std::uint64_t insert(std::uint64_t address, std::uint64_t object) noexcept {
    if (count_ >= most_ && !grow()) return kNone;
    Bucket& bucket = buckets_[place_of(address)];
    const unsigned way = bucket.find(0);
    if (way == kWays || bucket.find(address) != kWays || bucket.passed() != 0) {
      return insert_slowly(address, object);
    }
    bucket.put(way, address, object);
    ++count_;
    return kNone;
  }

  /// \returns  The object that was there, kNone if there was none.
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
    buckets_[at].addresses[way] = 0;
    --count_;
    return buckets_[at].object(way);
  }

  void clear() noexcept {
    if (buckets_ != nullptr) unmap_memory(buckets_, (mask_ + 1) * sizeof(Bucket));
    *this = ObjectMap();
  }
  std::size_t count() const noexcept { return count_; }

 private:
  static constexpr unsigned kWays = 4;

  struct alignas(64) Bucket {
    static constexpr unsigned kObjectBits = 48;
    static constexpr std::uint64_t kObjectMask = (std::uint64_t{1} << kObjectBits) - 1;

    std::uint64_t addresses[kWays];  ///< 0: none
    std::uint64_t objects[kWays];    ///< the first with passed() in its upper bits

    unsigned find(std::uint64_t address) const noexcept {
      unsigned found = 1u << kWays;
      for (unsigned i = 0; i < kWays; ++i) found |= unsigned{addresses[i] == address} << i;
      return static_cast<unsigned>(__builtin_ctz(found));
    }
    std::uint64_t object(unsigned way) const noexcept { return objects[way] & kObjectMask; }
    void put(unsigned way, std::uint64_t address, std::uint64_t object) noexcept {
      addresses[way] = address;
      objects[way] = (objects[way] & ~kObjectMask) | object;
    }
    std::uint64_t passed() const noexcept { return objects[0] >> kObjectBits; }
    void pass(int entries) noexcept {
      objects[0] += static_cast<std::uint64_t>(entries) << kObjectBits;
    }
  };
  static_assert(sizeof(Bucket) == 64);

  static constexpr unsigned kFirstBits = 10;
  // Chosen: 2 GiB for 67 million live objects. What is beyond is unknown when it ends.
  static constexpr unsigned kMostBits = 25;

  /// The product's upper bits: on them all bits of the address have a say.
  std::size_t place_of(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15u >> shift_);
  }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask_; }

  [[gnu::noinline]] std::uint64_t insert_slowly(std::uint64_t address,
                                                std::uint64_t object) noexcept {
    for (std::size_t at = place_of(address);; at = next(at)) {
      Bucket& bucket = buckets_[at];
      const unsigned way = bucket.find(address);
      if (way != kWays) {
        const std::uint64_t before = bucket.object(way);
        bucket.put(way, address, object);
        return before;
      }
      if (bucket.passed() == 0) break;
    }
    std::size_t at = place_of(address);
    for (; buckets_[at].find(0) == kWays; at = next(at)) buckets_[at].pass(1);
    buckets_[at].put(buckets_[at].find(0), address, object);
    ++count_;
    return kNone;
  }

  [[gnu::noinline]] bool grow() noexcept {
    const unsigned bits = buckets_ == nullptr ? kFirstBits : 64 - shift_ + 1;
    if (bits > kMostBits) return false;
    const std::size_t buckets = std::size_t{1} << bits;
    auto* const memory = static_cast<Bucket*>(map_table(buckets * sizeof(Bucket)));
    if (memory == nullptr) return false;
    ObjectMap before = *this;
    buckets_ = memory;
    mask_ = buckets - 1;
    shift_ = 64 - bits;
    count_ = 0;
    most_ = buckets * kWays / 2;
    for (std::size_t i = 0; i <= before.mask_ && before.buckets_ != nullptr; ++i) {
      const Bucket& bucket = before.buckets_[i];
      for (unsigned way = 0; way < kWays; ++way) {
        if (bucket.addresses[way] != 0) insert(bucket.addresses[way], bucket.object(way));
      }
    }
    before.clear();
    return true;
  }

  Bucket* buckets_ = nullptr;
  std::size_t mask_ = 0;
  std::size_t count_ = 0;
  std::size_t most_ = 0;  ///< entries before it grows
  unsigned shift_ = 0;
};

}  // namespace strata::recorder
